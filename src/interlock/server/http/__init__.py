"""The HTTP application: access, bodies, problems and the OpenAPI document."""
