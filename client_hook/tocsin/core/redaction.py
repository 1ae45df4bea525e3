"""Replace secrets in the data of a script by ``[redacted]`` before anything is sent or stored. Pure.

A secret is recognized by its name (``db_password``, ``apiKey``) or by its form (``ghp_...``, a JSON web
token, a URL with a password). The name alone is not enough if training scripts use the word for something
else: ``max_tokens``, ``pad_token_id``, ``key_dim``.

Every pattern takes time linear in the length of the text: it starts only where a run of letters starts, or
its length is bounded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

REDACTED = "[redacted]"
SHORTEST = 8
"""Shorter text is not searched for secrets."""
DEPTH = 64
"""Maximum depth of nested containers."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_]+")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_SECRET = _set(
    "password passwords passwd passcode passphrase pwd secret secrets credential credentials authorization "
    "bearer cookie cookies apikey apikeys apitoken apisecret authtoken accesstoken accesskey secretkey "
    "privatekey jwt"
)
"""Words that mark a secret if they come last, or before one of _TRAILING."""
_ENDINGS = ("password", "passwd", "apikey", "secretkey", "authtoken", "accesstoken")
"""Endings of words without separators, such as ``pgpassword``."""
_TRAILING = _set("value text string str plain hash hex base64 b64 key token id header default")
_ABOUT = _set(
    "name names file filename path dir folder length len size count num number policy type kind field "
    "column manager arn store backend enabled required prompt env var variable class rate dim"
)
"""Last words of names that describe a secret instead of holding one: ``password_file``, ``secret_name``."""

_KEY_OF = _set(
    "api access secret private account encryption signing ssh auth shared subscription deploy service "
    "license storage client consumer session master admin app application write hf huggingface hub wandb "
    "openai anthropic azure aws gcp google comet neptune clearml mlflow sas rsa pgp gpg hmac cipher "
    "databricks replicate together groq nvidia ngc cohere mistral sendgrid twilio datadog sentry"
)
"""``<word>_key`` and ``<word>_keys`` with these words are secrets."""
_TOKEN_OF = _set(
    "api access auth bearer hub hf huggingface github gitlab gh wandb refresh id session csrf xsrf bot slack "
    "telegram discord openai anthropic azure aws gcp google mlflow comet neptune clearml jwt oauth personal "
    "deploy secret security service user login client registry pypi npm docker kaggle tocsin private upload "
    "admin account sas pat databricks replicate together groq nvidia ngc cohere mistral vault runpod"
)
"""``<word>_token`` with these words is a secret; with any other word only if the value looks random."""
_VOCABULARY = _set(
    "pad bos eos unk sep cls mask start end stop image audio video class reg register special prefix suffix "
    "sot eot eod fim think thinking prompt query dist additional boi eoi newline space separator text word "
    "sub vocab"
)
"""``<word>_token`` with these words is an entry of a tokenizer."""
_PASS_OF = _set(
    "db database user smtp imap mail email ftp sftp redis mysql postgres pg mongo root admin login proxy "
    "http auth basic sudo my ssh"
)
"""``<word>_pass`` and ``<word>_pw`` with these words are passwords."""
_WEAK = _set("token key auth signature sig sas webhook cert dsn pat")
"""Last words of names under which a value is a secret if it looks random."""

_START = r"(?<![A-Za-z0-9_-])"
_SHAPES = (
    (_START + r"(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}(?![0-9A-Za-z])", REDACTED),
    (_START + r"gh[pousr]_[A-Za-z0-9]{20,}", REDACTED),
    (_START + r"github_pat_[A-Za-z0-9_]{20,}", REDACTED),
    (_START + r"glpat-[A-Za-z0-9_-]{16,}", REDACTED),
    (_START + r"sk-(?:ant|proj|svcacct|admin|or)-[A-Za-z0-9_-]{16,}", REDACTED),
    (_START + r"sk-[A-Za-z0-9]{20,}", REDACTED),
    (_START + r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}", REDACTED),
    (_START + r"hf_(?:[A-Za-z0-9]{30,}|(?=[a-z]{0,30}[A-Z0-9])[A-Za-z0-9]{20,})", REDACTED),
    (_START + r"xox[abeoprs]-[A-Za-z0-9-]{10,}", REDACTED),
    (_START + r"xapp-[A-Za-z0-9-]{10,}", REDACTED),
    (_START + r"AIza[0-9A-Za-z_-]{30,}", REDACTED),
    (_START + r"ya29\.[0-9A-Za-z_-]{20,}", REDACTED),
    (_START + r"(?:npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{40,}|dop_v1_[a-f0-9]{40,})", REDACTED),
    (_START + r"(?:tcn_|nvapi-|tgp_v1_)[A-Za-z0-9_-]{30,}", REDACTED),
    (_START + r"(?:gsk|r8)_[A-Za-z0-9]{30,}", REDACTED),
    (_START + r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}", REDACTED),
    (_START + r"(?:dapi|SK)[0-9a-f]{32}(?![0-9A-Za-z])", REDACTED),
    (_START + r"eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)?", REDACTED),
    (r"(https://hooks\.slack\.com/(?:services|workflows)/)[A-Za-z0-9/_-]+", rf"\1{REDACTED}"),
    (r"(https://(?:ptb\.|canary\.)?discord(?:app)?\.com/api/webhooks/\d+/)[\w-]+", rf"\1{REDACTED}"),
    (r"(https://api\.telegram\.org/bot)[0-9]+:[\w-]+", rf"\1{REDACTED}"),
    (r"((?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,20}://[^/\s:@'\"]*:)[^/\s'\"]+@", rf"\1{REDACTED}@"),
    (r"((?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,20}://)[A-Za-z0-9_-]{20,}@", rf"\1{REDACTED}@"),
    (
        r"(?i)([?&](?:access_?token|token|api_?key|sig|signature|secret|client_secret|password|pwd|"
        r"x-amz-(?:signature|credential|security-token)|x-goog-(?:signature|credential))=)[^&\s#'\"]+",
        rf"\1{REDACTED}",
    ),
)


@cache
def _shapes() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Return the compiled patterns. They are compiled at the first use, because that takes longer than
    importing the hook.
    """
    return tuple((re.compile(pattern), replacement) for pattern, replacement in _SHAPES)


_SCHEME = re.compile(r"\s*(?:Bearer\s+\S{8,}|Basic\s+(?=\S*[0-9=])\S{8,})\s*", re.IGNORECASE)
"""The value of an Authorization header."""
_ASSIGNED = re.compile(
    r"(?<![\w.-])(-{0,2}[A-Za-z_][\w.-]*)([\"']?\]?\s{0,4}(?::=|=(?!=)|:)\s{0,4})"
    r"(\"[^\"\n]*\"|'[^'\n]*'|(?:Bearer|Basic|Token)\s+[^\s\"',;)}\]]+|[^\s\"',;)}\]]+)"
)
"""``name=value`` or ``"name": "value"`` in text. The quotes belong to the value."""
_OPTION = re.compile(r"(?<!\S)(--?[A-Za-z][\w-]*)(\s+)(\"[^\"\n]*\"|'[^'\n]*'|[^\s\"'-]\S*)")
"""``--name value`` of a command line."""
_HEX = re.compile(r"[0-9a-fA-F-]{20,}")
_MIXED = re.compile(r"[A-Za-z0-9+]{20,}={0,2}")
_EXPRESSION = re.compile(
    r"[A-Za-z_]\w*(?:\.\w+)*[(\[]|(?:self|args|cfg|config|os|opts?|settings|conf|kwargs)\."
)
"""An expression that a line of code assigns: ``get_password()``, ``args.token``."""
_NO_VALUE = _set("none null true false yes no str int bytes any optional")


class Redactor:
    """Replace secrets in plain data and in text."""

    def __init__(self, *, off: bool = False, keys: Iterable[str] = ()) -> None:
        """Choose what is replaced.

        Args:
            off: Replace nothing.
            keys: Further names of secrets, with ``*`` and ``?``; case does not matter.
        """
        self.off = off
        self._patterns = tuple(text.strip().lower() for text in keys if text.strip())
        self.found: set[str] = set()
        """Paths of configuration values that were replaced."""

    def data(self, value: Any) -> Any:
        """Return plain data (dicts, lists, text, numbers) with every secret replaced."""
        if self.off:
            return value
        return self._of(value, "", (), DEPTH)

    def text(self, text: str) -> str:
        """Return text with the secrets in it replaced."""
        if self.off or len(text) < SHORTEST:
            return text
        text = _without_blocks(text)
        for pattern, replacement in _shapes():
            text = pattern.sub(replacement, text)
        text = _ASSIGNED.sub(self._assigned, text)
        return _OPTION.sub(self._assigned, text)

    def lines(self, lines: list[str]) -> list[str]:
        """Return the lines of a traceback with all secrets replaced, also those that span several lines."""
        return self.text("\n".join(lines)).split("\n") if lines else []

    def names_secret(self, key: str, value: Any, above: tuple[str, ...] = ()) -> bool:
        """Return whether ``value`` is a secret because of its name.

        Args:
            key: Its name.
            value: A string, number, list or mapping.
            above: Words of the name of the mapping that contains it: ``{"api": {"key": ...}}``.
        """
        if value is None or isinstance(value, bool) or value in ("", REDACTED):
            return False
        if isinstance(value, str) and value.lower() in _NO_VALUE:
            return False
        if any(fnmatchcase(key.lower(), pattern) for pattern in self._patterns):
            return True
        words = _words_of(key)
        if not words:
            return False
        if isinstance(value, (dict, list)):
            return bool(value) and (_names_several(words) or _is_strong(words, ""))
        text = value if isinstance(value, str) else ""
        return _is_strong(words, text) or (bool(text) and _is_probable(words, above, text))

    def _of(self, value: Any, path: str, above: tuple[str, ...], depth: int) -> Any:
        if depth <= 0:
            return value
        if isinstance(value, str):
            clean = REDACTED if _SCHEME.fullmatch(value) else self.text(value)
            if clean != value:
                self.found.add(path)
            return clean
        if isinstance(value, Mapping):
            return self._mapping(value, path, depth)
        if isinstance(value, (list, tuple)):
            return self._list(list(value), path, above, depth)
        return value

    def _mapping(self, value: Mapping[Any, Any], path: str, depth: int) -> dict[Any, Any]:
        out: dict[Any, Any] = {}
        words = _words_of(path.rpartition(".")[2])
        for key, item in value.items():
            name = str(key)
            at = f"{path}.{name}" if path else name
            if self.names_secret(name, item, words):
                self.found.add(at)
                out[key] = REDACTED
            else:
                out[key] = self._of(item, at, words, depth - 1)
        # {"name": "API_KEY", "value": "..."}: environment variables in the format of container descriptions.
        called = next((str(value[key]) for key in ("name", "key") if isinstance(value.get(key), str)), "")
        if called and isinstance(value.get("value"), str) and self.names_secret(called, value["value"]):
            self.found.add(f"{path}.value")
            out["value"] = REDACTED
        return out

    def _list(self, items: list[Any], path: str, above: tuple[str, ...], depth: int) -> list[Any]:
        """Return a list with all secrets replaced. ``["--api-key", "..."]`` is a command line."""
        out: list[Any] = []
        for number, item in enumerate(items):
            before = items[number - 1] if number else None
            option = before[1:].lstrip("-") if isinstance(before, str) and before[:1] == "-" else ""
            secret = option and isinstance(item, str) and item[:1] != "-" and self.names_secret(option, item)
            if secret:
                self.found.add(f"{path}[{number}]")
            out.append(REDACTED if secret else self._of(item, f"{path}[{number}]", above, depth - 1))
        return out

    def _assigned(self, match: re.Match[str]) -> str:
        name, between, value = match.groups()
        quote = value[0] if value[:1] in "\"'" else ""
        inner = value[1:-1] if quote else value
        if inner.startswith(REDACTED[:-1]) or (not quote and _EXPRESSION.match(inner)):
            return match[0]
        if not self.names_secret(name.lstrip("-"), inner):
            return match[0]
        return f"{name}{between}{quote}{REDACTED}{quote}"


def redactor(given: Any, environ: Mapping[str, str] = os.environ) -> Redactor:
    """Return the redactor that the script and the environment request.

    Args:
        given: ``redact=`` of ``watch``: True, False, or further names of secrets.
        environ: ``TOCSIN_REDACT=0`` disables it, ``TOCSIN_REDACT_KEYS`` lists further names.
    """
    switched = environ.get("TOCSIN_REDACT", "").strip().lower()
    off = given is False or (given is None and switched in ("0", "false", "no", "off"))
    keys = environ.get("TOCSIN_REDACT_KEYS", "").split(",")
    if isinstance(given, str):
        keys.append(given)
    elif isinstance(given, Collection):
        keys += map(str, given)
    return Redactor(off=off, keys=keys)


def _without_blocks(text: str) -> str:
    """Replace PEM blocks (private keys, certificates). A truncated block extends to the end of the text."""
    begin = text.find("-----BEGIN ")
    while begin >= 0:
        end = text.find("-----END ", begin)
        close = text.find("-----", end + 9) if end >= 0 else -1
        text = text[:begin] + REDACTED + (text[close + 5 :] if close >= 0 else "")
        begin = text.find("-----BEGIN ", begin)
    return text


def _words_of(key: str) -> tuple[str, ...]:
    """Return the words of a name in lower case, without a number at its end."""
    words = tuple(word.lower() for word in _WORDS.findall(key))
    while len(words) > 1 and words[-1].isdigit():
        words = words[:-1]
    return words


def _is_strong(words: tuple[str, ...], text: str) -> bool:
    """Return whether the name alone marks a secret: ``password``, ``clientSecret``,
    ``aws_secret_access_key``.
    """
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last in _ABOUT:
        return False
    if last == "pwd" and text[:1] in ("/", "~", "."):
        return False  # ``pwd`` as the working directory
    if last in _SECRET or (before in _SECRET and last in _TRAILING) or last.endswith(_ENDINGS):
        return True
    if last in ("pass", "pw"):
        return before in _PASS_OF
    if (before, last) in (("connection", "string"), ("conn", "str"), ("conn", "string"), ("private", "pem")):
        return True
    return "password" in words or "passwd" in words


def _is_probable(words: tuple[str, ...], above: tuple[str, ...], text: str) -> bool:
    """Return whether name and value together mark a secret: ``api_key``, ``token`` with a random value."""
    last, before = words[-1], words[-2] if len(words) > 1 else (above[-1] if above else "")
    if last == "id" and before in ("key", "keys"):
        last, before = "key", words[-3] if len(words) > 2 else before
    if last in ("key", "keys") and before in _KEY_OF:
        return True
    if last in ("token", "tokens"):
        if before in _VOCABULARY or text[0] in "<[":
            return False
        if before in _TOKEN_OF or (len(words) == 1 and last == "token"):
            return True
    if last == "auth" and (len(words) == 1 or before in ("basic", "http", "proxy", "digest")):
        return text.lower() not in ("none", "basic", "digest", "oauth", "oauth2", "token", "kerberos", "ldap")
    return last in _WEAK and _is_random(text)


def _names_several(words: tuple[str, ...]) -> bool:
    """Return whether a list or mapping with this name contains only secrets."""
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last in ("secrets", "credentials", "passwords", "apikeys", "cookies"):
        return True
    return (last == "keys" and before in _KEY_OF) or (
        last == "tokens" and before in ("api", "access", "auth")
    )


def _is_random(text: str) -> bool:
    """Return whether the text is long and looks random: hexadecimal, or letters and digits mixed."""
    if _HEX.fullmatch(text):
        return any(letter.isdigit() for letter in text)
    kinds = (str.isdigit, str.isupper, str.islower)
    return bool(_MIXED.fullmatch(text)) and all(any(kind(letter) for letter in text) for kind in kinds)
