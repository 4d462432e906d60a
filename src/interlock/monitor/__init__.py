"""Many observations over time: when a surface is ready, and when a submitted turn is complete."""
