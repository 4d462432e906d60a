"""Tools of the model loop, confined to a workspace."""
