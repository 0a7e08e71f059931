"""The probe: what this machine does in a minute, measured, as a hardware profile."""
