"""A call to a model, in layers. Begin with `moot.nodes._models.call.stack`."""
