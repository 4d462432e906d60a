"""pi by `--mode rpc`."""
