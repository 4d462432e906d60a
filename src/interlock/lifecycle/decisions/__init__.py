"""Tool calls, dialogs and permissions: what may run, and who decides."""
