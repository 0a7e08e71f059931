"""Files of step times in the forms that benchmarks write: small and made here, with figures of issues where named."""

from __future__ import annotations

import json
from typing import Any

SGLANG_LINE: dict[str, Any] = {
    "batch_size": 1, "steps": 3, "topk": 1, "num_draft_tokens": 4, "acc_length": 2.6, "step_time": 0.011,
    "speed": 236.364, "completion_tokens": 512.0,
}  # fmt: skip
SGLANG_LINES = [
    SGLANG_LINE | {"steps": 0, "topk": 0, "num_draft_tokens": 0, "acc_length": 1.0, "step_time": 0.008, "speed": 125.0},
    SGLANG_LINE,
    SGLANG_LINE | {"batch_size": 8, "step_time": 0.018, "speed": 144.444},
    SGLANG_LINE | {"steps": 5, "topk": 4, "num_draft_tokens": 16, "step_time": 0.02, "acc_length": 3.5, "speed": 175.0},
]
SGLANG = "".join(f"{json.dumps(line)}\n" for line in SGLANG_LINES)

# The first costs of ggml-org/llama.cpp#17034.
COSTS = [1, 0.605, 0.473, 0.408, 0.374, 0.351, 0.334, 0.32]
COSTS_ENVIRONMENT = f'export GGML_BATCH_COSTS="{",".join(map(str, COSTS))}"\n'
COSTS_C = "static const float batch_costs[8] = {\n    " + ", ".join(f"{c:.3f}f" for c in COSTS) + ", // eight\n};\n"

# ggml-org/llama.cpp#3545: LLaMA 7B F16 on an M2 Ultra.
BATCHED = """main: n_kv_max = 16384, n_batch = 2048, n_ubatch = 512, flash_attn = 0, is_pp_shared = 0, n_gpu_layers = 99

|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |
|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|
|   128 |    128 |    1 |    256 |    0.108 |  1186.64 |    3.079 |    41.57 |    3.187 |    80.32 |
|   128 |    128 |    2 |    512 |    0.198 |  1295.19 |    5.029 |    50.90 |    5.227 |    97.95 |
|   128 |    128 |    4 |   1024 |    0.373 |  1373.96 |    6.878 |    74.44 |    7.251 |   141.23 |
|   128 |    128 |    8 |   2048 |    0.751 |  1363.27 |    7.344 |   139.43 |    8.095 |   252.99 |
|   128 |    128 |   16 |   4096 |    1.570 |  1304.68 |    8.455 |   242.23 |   10.024 |   408.60 |
|   128 |    128 |   32 |   8192 |    3.408 |  1201.73 |    8.801 |   465.40 |   12.209 |   670.96 |
|   128 |    256 |    1 |    384 |    0.107 |  1196.70 |    6.329 |    40.45 |    6.436 |    59.67 |

llama_print_timings:        load time =    1000.00 ms
"""
BATCHED_RECORD: dict[str, Any] = {
    "n_kv_max": 20480, "n_batch": 2048, "n_ubatch": 2048, "flash_attn": 1, "is_pp_shared": 0, "n_gpu_layers": -1,
    "n_threads": 16, "n_threads_batch": 16, "pp": 512, "tg": 32, "pl": 1, "n_kv": 544, "t_pp": 0.337,
    "speed_pp": 1518.9, "t_tg": 0.405, "speed_tg": 79.04, "t": 0.742, "speed": 733.22,
}  # fmt: skip
# ggml-org/llama.cpp#16894, Qwen2 7B Q8_0.
BATCHED_RECORDS = [
    BATCHED_RECORD,
    BATCHED_RECORD | {"pl": 2, "n_kv": 1088, "t_tg": 0.469, "speed_tg": 136.37},
    BATCHED_RECORD | {"pl": 4, "n_kv": 2176, "t_tg": 0.570, "speed_tg": 224.52},
    BATCHED_RECORD | {"pp": 4096, "n_kv": 4128, "t_tg": 0.428, "speed_tg": 74.77},
    BATCHED_RECORD | {"pp": 4096, "pl": 2, "n_kv": 8256, "t_tg": 0.514, "speed_tg": 124.48},
    BATCHED_RECORD | {"pp": 4096, "pl": 4, "n_kv": 16512, "t_tg": 0.655, "speed_tg": 195.49},
]
BATCHED_JSONL = "".join(f"{json.dumps(record)}\n" for record in BATCHED_RECORDS)

# ggml-org/llama.cpp#5625: Llama 34B Q8_0, whose ninth position costs another kernel.
STAIRCASE = {1: 34.67, 2: 64.67, 3: 92.92, 4: 108.26, 5: 135.18, 6: 134.88, 7: 150.72, 8: 160.81, 9: 80.38, 10: 89.21}
BENCH = """ggml_cuda_init: found 1 CUDA devices:
  Device 0: a card, compute capability 8.9, VMM: yes
| model                          |       size |     params | backend    | ngl | test       |              t/s |
| ------------------------------ | ---------: | ---------: | ---------- | --: | ---------- | ---------------: |
""" + "".join(
    f"| llama 34B Q8_0 | 33.39 GiB | 33.74 B | CUDA | 99 | pp {n} | {speed:.2f} ± 0.28 |\n"
    for n, speed in STAIRCASE.items()
)
BENCH_DEPTHS = """| model                  |     size | params | backend | ngl |          test |             t/s |
| ---------------------- | -------: | -----: | ------- | --: | ------------: | --------------: |
| qwen2 7B Q4_K - Medium | 4.36 GiB | 7.62 B | CUDA    |  -1 |         pp512 | 7340.20 ± 23.45 |
| qwen2 7B Q4_K - Medium | 4.36 GiB | 7.62 B | CUDA    |  -1 |         tg128 |   120.60 ± 0.59 |
| qwen2 7B Q4_K - Medium | 4.36 GiB | 7.62 B | CUDA    |  -1 |  tg128 @ d512 |   116.71 ± 0.60 |
| qwen2 7B Q4_K - Medium | 4.36 GiB | 7.62 B | CUDA    |  -1 |   pp512+tg128 |   500.00 ± 2.00 |
"""
BENCH_RECORD: dict[str, Any] = {
    "build_commit": "8cf427ff", "build_number": 5163, "cpu_info": "a processor", "gpu_info": "a card",
    "backends": "CUDA", "model_filename": "m.gguf", "model_type": "qwen2 7B Q4_K - Medium", "model_size": 4677120000,
    "n_batch": 2048, "n_ubatch": 512, "n_threads": 8, "type_k": "f16", "n_gpu_layers": 99, "flash_attn": True,
    "n_prompt": 0, "n_gen": 128, "n_depth": 0, "test_time": "2025-04-24T11:58:51Z", "avg_ns": 1076767880,
    "stddev_ns": 9449585, "avg_ts": 118.881588, "stddev_ts": 1.041811, "samples_ns": [1075361300, 1078174460],
}  # fmt: skip


def bench_record(n_prompt: int, n_gen: int, seconds: float, **changes: Any) -> dict[str, Any]:
    """A record of llama-bench whose test takes so long."""
    sizes = {
        "n_prompt": n_prompt,
        "n_gen": n_gen,
        "avg_ns": round(seconds * 1e9),
        "avg_ts": (n_prompt + n_gen) / seconds,
    }
    return BENCH_RECORD | sizes | changes


BENCH_RECORDS = [
    *(bench_record(n, 0, 0.008 + 0.0005 * n) for n in (2, 4, 8)),
    bench_record(0, 128, 128 * 0.0085),
    *(bench_record(n, 0, 0.009 + 0.0005 * n, n_depth=4096) for n in (2, 4, 8)),
    bench_record(0, 128, 128 * 0.0095, n_depth=4096),
]
BENCH_JSON = json.dumps(BENCH_RECORDS, indent=1)
BENCH_JSONL = "".join(f"{json.dumps(record)}\n" for record in BENCH_RECORDS)
_COLUMNS = [name for name in BENCH_RECORD if name != "samples_ns"]
BENCH_CSV = "\n".join(
    [",".join(_COLUMNS), *(",".join(f'"{record[name]}"' for name in _COLUMNS) for record in BENCH_RECORDS), ""]
)

TABLE = """batch,context,width,time_ms
1,512,1,10
1,512,4,13
8,512,1,12
8,512,4,19
1,4096,1,11
1,4096,4,14
8,4096,1,16
8,4096,4,23
"""
TABLES = """series,model,hardware,batch_sequences,query_tokens_per_sequence,context,time_ms,relative_cost_per_token,note
verify,m,not recorded,1,1,,8.47,,a
verify,m,not recorded,1,2,,13.49,,a
costs,m,not recorded,1,1,,,1,"relative, to one"
costs,m,not recorded,1,2,,,0.605,b
drafts,big,GPU,1,1,,12.5,1.00,c
drafts,small,GPU,1,1,,3.75,0.3,c
"""
SPLITWISE = """model,hardware,prompt_size,batch_size,token_size,prompt_time,token_time,e2e_time,tensor_parallel
m,a100,512,1,128,196.25,54.88,7166.0,2
m,a100,512,1,128,196.25,54.80,7155.9,2
m,a100,512,1,128,196.25,54.90,7168.6,2
m,a100,512,2,128,250.00,55.80,7336.6,2
m,a100,512,64,128,2000.00,67.00,160000.0,2
m,a100,512,1,128,120.00,42.00,5454.0,8
"""

EXAMPLES: dict[str, str] = {
    "sglang.jsonl": SGLANG,
    "costs.json": json.dumps(COSTS),
    "costs.sh": COSTS_ENVIRONMENT,
    "costs.c": COSTS_C,
    "costs.txt": " ".join(map(str, COSTS)),
    "batched.md": BATCHED,
    "batched.jsonl": BATCHED_JSONL,
    "bench.md": BENCH,
    "depths.md": BENCH_DEPTHS,
    "bench.json": BENCH_JSON,
    "bench.jsonl": BENCH_JSONL,
    "bench.csv": BENCH_CSV,
    "table.csv": TABLE,
    "splitwise.csv": "".join(SPLITWISE.splitlines(keepends=True)[:6]),
}
