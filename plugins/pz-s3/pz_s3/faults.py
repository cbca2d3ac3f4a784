"""What a store or the way to it answered, as a coded fault: whether it may pass, and what to do.

No text of theirs stands in it, since answers repeat keys and addresses; their error code does.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from pz_core.contract.connector import ConnectorError
from pz_s3.settings import Settings

_NEEDS = "s3:ListBucket, s3:GetObject, s3:PutObject, s3:DeleteObject and s3:AbortMultipartUpload"
_CREDENTIALS = (
    "check access_key:, secret_key: and session_token:, or the environment, profile or role that they are taken from"
)
#: The store's code -> what is wrong, what to do. ``{bucket}`` and ``{address}`` are filled in.
_FINAL: dict[str, tuple[str, str]] = {
    "NoSuchBucket": (
        "the bucket '{bucket}' does not exist at {address}",
        "create it, or correct root:, bucket: or endpoint:",
    ),
    "NoSuchKey": ("the object does not exist", "check path: and root:"),
    "AccessDenied": ("access is denied", f"the identity needs {_NEEDS} on the bucket and its objects"),
    "AllAccessDisabled": ("access is denied", "the bucket or the account is locked"),
    "AccountProblem": ("the store has closed the account", "ask whoever runs the store"),
    "InvalidAccessKeyId": ("the store does not know the access key", _CREDENTIALS),
    "SignatureDoesNotMatch": ("the secret key is wrong", _CREDENTIALS),
    "InvalidToken": ("the session token is not valid", _CREDENTIALS),
    "ExpiredToken": ("the temporary credentials have expired", "renew them and run again"),
    "TokenRefreshRequired": ("the temporary credentials have expired", "renew them and run again"),
    "RequestTimeTooSkewed": ("this machine's clock differs too much from the store's", "set the clock, then run again"),
    "RequestExpired": ("this machine's clock differs too much from the store's", "set the clock, then run again"),
    "InvalidBucketName": ("'{bucket}' cannot be the name of a bucket", "correct root: or bucket:"),
    "QuotaExceeded": ("the store's quota is used up", "free some space, or have the quota raised"),
    "EntityTooLarge": ("the object is larger than the store takes", "split the output, or compress it"),
    "KeyTooLongError": ("the key is longer than the store takes", "shorten path: or the entity's name"),
    "InvalidObjectState": ("the object is archived", "restore it first"),
}
_REGION = ("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "301")
_PASSING = ("SlowDown", "ServiceUnavailable", "InternalError", "RequestTimeout", "Throttling", "ThrottlingException",
            "RequestLimitExceeded", "TooManyRequests", "OperationAborted", "503", "500")  # fmt: skip
_PASSING_STATUS = (408, 429, 500, 502, 503, 504)
_STATUS_CODES = {"401": "AccessDenied", "403": "AccessDenied", "Forbidden": "AccessDenied", "404": "NoSuchKey"}


class Stopped(Exception):
    """The work was told to stop; never the fault itself."""


def error_code(error: BaseException) -> str:
    """The store's own code of a refusal, empty for any other fault."""
    response: Any = getattr(error, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""


def is_missing(error: BaseException) -> bool:
    """Whether the store says that an object is not there."""
    return error_code(error) in ("404", "NoSuchKey", "NotFound")


@contextlib.contextmanager
def told(settings: Settings, subject: str, bucket: str, doing: str) -> Iterator[None]:
    """Turn whatever the client raises in the block into a coded fault.

    Args:
        settings: of the connection.
        subject: ``connection.entity``, or the connection alone.
        bucket: that was asked.
        doing: what was tried, for the message: ``reading s3://lake/a.csv``.

    Raises:
        ConnectorError: always in place of the client's own.
    """
    try:
        yield
    except Exception as error:
        fault = _fault(error, settings, subject, bucket, doing)
        if fault is None:
            raise
        raise fault from error


def unread(error: ConnectorError, settings: Settings, subject: str) -> ConnectorError | None:
    """The fault where DuckDB's own reading failed on the way to the store, ``None`` where it failed on the content."""
    import duckdb

    text = str(error.__cause__ or "")
    if not isinstance(error.__cause__, (duckdb.HTTPException, duckdb.IOException)) or "HTTP" not in text:
        return None
    status = re.search(r"\(HTTP (\d{3})\b", text)
    if status is None:
        return _passing(f"{subject}: {settings.address} cannot be reached, or broke the connection", error)
    number = int(status[1])
    if number in _PASSING_STATUS:
        return _passing(f"{subject}: the store cannot answer now (HTTP {number})", error)
    what, hint = {
        403: _FINAL["AccessDenied"],
        404: ("an object went away while it was read", "run it again once nobody writes there"),
        301: ("the bucket lies in another region", "set region: to the bucket's"),
        400: ("the store refused, as it does where region: is not the bucket's", "set region: to the bucket's"),
    }.get(number, ("the store refused", "check the connection's options"))
    return ConnectorError(f"{subject}: {what} (HTTP {number})", hint=hint, cause=error)


def _fault(error: Exception, settings: Settings, subject: str, bucket: str, doing: str) -> ConnectorError | None:
    if isinstance(error, ConnectorError):
        return None
    from botocore.exceptions import BotoCoreError, ClientError
    from urllib3.exceptions import HTTPError

    before = f"{subject}: {doing}"
    if isinstance(error, ClientError):
        return _refused(error, settings, subject, bucket, doing)
    if isinstance(error, (BotoCoreError, HTTPError, ValueError)):
        return _unreached(error, settings, subject, doing)
    if isinstance(error, (ConnectionError, TimeoutError)):
        return _passing(f"{before}: the connection to {settings.address} broke", error)
    if isinstance(error, Stopped):
        return ConnectorError(f"{before}: stopped", hint="run it again", cause=error)
    if isinstance(error, OSError):
        return ConnectorError(
            f"{before}: this machine's disk: {error.strerror or type(error).__name__}",
            hint="check that the project's folder .pz/tmp can be written and has room for the file",
            cause=error,
        )
    return None


def _refused(error: Any, settings: Settings, subject: str, bucket: str, doing: str) -> ConnectorError:
    response = error.response if isinstance(error.response, dict) else {}
    meta = response.get("ResponseMetadata", {})
    status, headers = int(meta.get("HTTPStatusCode", 0) or 0), meta.get("HTTPHeaders", {}) or {}
    raw = error_code(error)
    code = _STATUS_CODES.get(raw, raw)
    named = f" ({code})" if re.fullmatch(r"[A-Za-z]{3,60}", code) else f" (HTTP {status})" if status else ""
    before = f"{subject}: {doing}"
    if code in _REGION:
        region = str(headers.get("x-amz-bucket-region", "")) or str(response.get("Error", {}).get("Region", ""))
        right = f"set region: {region}" if re.fullmatch(r"[a-z0-9-]{2,40}", region) else "set region: to the bucket's"
        return ConnectorError(f"{before}: the bucket '{bucket}' lies in another region{named}", hint=right, cause=error)
    if code in _FINAL:
        what, hint = (text.format(bucket=bucket, address=settings.address) for text in _FINAL[code])
        return ConnectorError(f"{before}: {what}{named}", hint=hint, cause=error)
    if code in _PASSING or status in _PASSING_STATUS:
        return _passing(f"{before}: the store cannot answer now{named}", error, _seconds(headers.get("retry-after")))
    return ConnectorError(
        f"{before}: the store refused{named}", hint="look the code up in the store's pages", cause=error
    )


def _unreached(error: Exception, settings: Settings, subject: str, doing: str) -> ConnectorError:
    from botocore import exceptions as boto

    before, where = f"{subject}: {doing}", settings.address
    if isinstance(error, boto.SSLError):
        return ConnectorError(
            f"{before}: TLS with {where} failed",
            hint="set use_ssl: false if the store has no TLS, else check its certificate (AWS_CA_BUNDLE names a file)",
            cause=error,
        )
    if isinstance(error, (boto.NoCredentialsError, boto.PartialCredentialsError)):
        return ConnectorError(
            f"{before}: there are no credentials for connection '{settings.name}'",
            hint="give access_key: and secret_key:, or profile:, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; "
            "anonymous: true asks without any",
            cause=error,
        )
    if isinstance(error, (boto.ProfileNotFound, boto.ConfigNotFound, boto.ConfigParseError)):
        return ConnectorError(
            f"{before}: the profile of connection '{settings.name}' cannot be read",
            hint="correct profile:, or the profile files (AWS_CONFIG_FILE, AWS_SHARED_CREDENTIALS_FILE)",
            cause=error,
        )
    if isinstance(error, (boto.CredentialRetrievalError, boto.TokenRetrievalError, boto.MetadataRetrievalError)):
        return _passing(f"{before}: the credentials of connection '{settings.name}' could not be fetched", error)
    broken = (boto.ConnectionError, boto.HTTPClientError, boto.ResponseStreamingError, boto.IncompleteReadError)
    if isinstance(error, broken) or not isinstance(error, (boto.BotoCoreError, ValueError)):
        return _passing(f"{before}: {where} cannot be reached, or broke the connection", error)
    return ConnectorError(
        f"{before}: no request could be made ({type(error).__name__})",
        hint="check endpoint:, region:, root: and bucket:",
        cause=error,
    )


def _passing(message: str, error: BaseException, seconds: float | None = None) -> ConnectorError:
    return ConnectorError(
        message,
        transient=True,
        retry_after=seconds,
        hint="check endpoint: and the network if it stays; retries follow retry: of the connection or the entity",
        cause=error,
    )


def _seconds(value: object) -> float | None:
    try:
        found = float(str(value))
    except ValueError:
        return None
    return found if 0 <= found <= 3_600 else None
