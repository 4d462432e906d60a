"""The lab: agent CLIs, driven by Interlock itself against a scripted model, so that what is claimed can be counted."""
