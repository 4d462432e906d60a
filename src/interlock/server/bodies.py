"""Bodies of requests, decoded strictly: a string is no number, and what is not known is refused, as the schema says."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Request
from litestar.exceptions import ValidationException
from litestar.params import BodyKwarg


class StrictRequest(Request[Any, Any, Any]):
    """Litestar would read the body as anything, and then be lenient about it."""

    async def body(self) -> bytes:
        """No body is an empty object: where nothing in it is needed, that will do."""
        return await super().body() or b"{}"

    async def json(self) -> Any:  # noqa: ANN401 - what it is, the route says
        """The body as the route wants it."""
        body = await self.body()
        try:
            return msgspec.json.decode(body, type=self._wanted())
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise ValidationException(detail=str(error)) from error
        except RecursionError as error:
            raise ValidationException(detail="the body is nested too deeply") from error

    def _wanted(self) -> Any:  # noqa: ANN401 - a type
        fields = self.scope["route_handler"].parsed_fn_signature.parameters.values()
        return next((one.annotation for one in fields if isinstance(one.kwarg_definition, BodyKwarg)), Any)
