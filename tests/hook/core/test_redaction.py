"""Values that look like secrets are replaced before they are sent; usual names of training scripts stay."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.hook.ingest_server import IngestServer, wait_until
from tests.hook.trainers import run_script
from tocsin.core.redaction import REDACTED, Redactor, redactor

RANDOM = "q8ZkV3nB7xTtWc2LmPfR5yHs"
HEX = "3f786850e387550fdab836ed7e6dc881de23001b"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dBjftJeZ4CVPmB92K27uhbUJU1p1r_wW1gFWFOEjXk"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nabc=\n-----END RSA PRIVATE KEY-----"

SECRET_NAMES = """
password db_password dbPassword DB_PASSWORD passwd passphrase pwd user_pass smtp.pass password2 passwordHash
secret client_secret clientSecret SECRET_KEY aws_secret_access_key awsSecretAccessKey secret-value
api_key apiKey API-KEY APIKey openai_api_key OPENAI_API_KEY access_key access_key_id private_key privateKey
encryption_key wandb_key ssh_key account_key
token hub_token hf_token HF_TOKEN authToken access_token refresh_token github_token bot_token api_token
apitoken
authorization Authorization proxy-authorization credential credentials cookie jwt basic_auth
connection_string connectionString conn_str
"""
HARMLESS = {
    "max_tokens": 4096, "max_new_tokens": "512", "num_tokens": 1e9, "tokens_per_batch": "8192",
    "tokens": "4096",
    "tokenizer": "bert-base-uncased", "tokenizer_name": "meta-llama/Llama-3.1-8B", "token_dim": "768",
    "pad_token": "<pad>", "pad_token_id": 0, "eos_token": "</s>", "eos_token_id": "2",
    "mask_token": "[MASK]",
    "bos_token": "bos", "cls_token": "cls", "image_token": "image", "additional_special_tokens": ["<a>",
    "<b>"],
    "user_token": "<|user|>", "class_token": "learned", "think_end_token": "</think>",
    "token_type_ids": "1",
    "use_auth_token": True, "token": None, "password": "", "hide_password": True, "token_merging": "tome",
    "key_dim": 64, "num_key_value_heads": "8", "sort_key": "loss", "key": "gt_image", "lq_key": "lq",
    "keys": ["a"],
    "primary_key": "id", "monitor_key": "val/psnr", "key_padding_mask": "none", "metric_key": "psnr_rgb",
    "public_key": "id_rsa.pub", "keyboard": "us", "monkey": "yes", "passes": "3", "n_pass": "2",
    "pass": "first",
    "bypass": "all", "num_passes": 4, "pwd": "/home/me/project", "author": "me", "authors": "me, you",
    "secretary": "x", "secret_name": "db-login", "password_file": "/run/secrets/db", "password_length": 12,
    "git_commit": HEX, "sha256": HEX, "checkpoint": f"/data/{HEX}.pt",
    "model": "sk-learn-random-forest-model-v2",
    "task": "token classification", "attention": "Basic attention", "scheme": "basic", "lr": 1e-4,
    "dataset": "s3://bucket/path", "server": "http://node7:8321/runs",
    "hf_model": "hf_internal_testing_tiny",
    "arch": "ResNet50_ImageNet22k_pretrained_v2", "cache": "Qwen2.5-VL-72B-Instruct-AWQ",
    "gradient_signature": "l2",
    "cookie_cutter": "template", "basic_auth": False, "loss": "bce", "author_token_count": 3,
}  # fmt: skip
LONG = RANDOM + RANDOM
SHAPES = {
    "AWS": "AKIA" + "IOSFODNN7EXAMPLE", "AWS session": "ASIA" + "IOSFODNN7EXAMPLE", "GitHub": "ghp_" + LONG,
    "GitHub, fine-grained": "github_pat_11" + LONG, "GitLab": "glpat-" + RANDOM, "OpenAI": "sk-" + LONG,
    "OpenAI project": "sk-proj-" + LONG, "Anthropic": f"sk-ant-api03-{RANDOM}-x_y",
    "Stripe": "sk_live_" + RANDOM,
    "Hugging Face": "hf_" + LONG, "Slack bot": "xoxb-1234567890-" + RANDOM,
    "Slack user": "xoxp-12345-" + RANDOM,
    "Google": "AIza" + LONG, "JWT": JWT, "PEM": PEM, "tocsin": "tcn_" + LONG,
    "SendGrid": f"SG.{RANDOM}.{LONG}", "Databricks": "dapi" + "0a1b2c3d" * 4, "Twilio": "SK" + "0a1b2c3d" * 4,
    "Groq": "gsk_" + LONG, "NVIDIA": "nvapi-" + LONG, "Together": "tgp_v1_" + LONG, "Replicate": "r8_" + LONG,
}  # fmt: skip
PARTS = {
    "postgresql://me:s3cret@db:5432/x": f"postgresql://me:{REDACTED}@db:5432/x",
    "redis://:s3cret@cache/0": f"redis://:{REDACTED}@cache/0",
    f"https://{RANDOM}@sentry.io/1": f"https://{REDACTED}@sentry.io/1",
    "https://api/x?token=abc&page=2": f"https://api/x?token={REDACTED}&page=2",
    "https://b.s3/x?X-Amz-Signature=abc&y=1": f"https://b.s3/x?X-Amz-Signature={REDACTED}&y=1",
    "https://hooks.slack.com/services/T0/B0/abc": f"https://hooks.slack.com/services/{REDACTED}",
    "train.py --api-key hunter2 --lr 0.1": f"train.py --api-key {REDACTED} --lr 0.1",
    "DB_PASSWORD=hunter2 python train.py": f"DB_PASSWORD={REDACTED} python train.py",
    "Endpoint=x;AccountKey=ab+c==;Suffix=y": f"Endpoint=x;AccountKey={REDACTED};Suffix=y",
    "login('me', password='hunter 2')": f"login('me', password='{REDACTED}')",
    '{"api_key": "hunter2", "lr": 0.1}': f'{{"api_key": "{REDACTED}", "lr": 0.1}}',
    "Authorization: Bearer abc.def": f"Authorization: {REDACTED}",
    f"got {SHAPES['GitHub']} twice": f"got {REDACTED} twice",
    f"key is\n{PEM}\nend": f"key is\n{REDACTED}\nend",
}  # fmt: skip
CODE = [
    "token = tokenizer.next(text)", "password = get_password()",
    "def login(user: str, password: str) -> None:",
    "api_key = args.api_key", "pad_token=self.pad_token", "loss: 0.1, lr: 0.01", "if token == end: return",
]  # fmt: skip


@pytest.mark.parametrize("name", SECRET_NAMES.split())
def test_a_name_of_a_secret_hides_its_value(name: str) -> None:
    """In any spelling and at any depth."""
    assert Redactor().data({"a": [{name: "hunter2"}]}) == {"a": [{name: REDACTED}]}


@pytest.mark.parametrize("name", list(HARMLESS))
def test_usual_names_of_training_scripts_stay(name: str) -> None:
    """Tokens of a tokenizer, keys of a mapping, passes over the data."""
    assert Redactor().data({name: HARMLESS[name]}) == {name: HARMLESS[name]}


@pytest.mark.parametrize("kind", list(SHAPES))
def test_a_secret_is_recognized_by_its_format(kind: str) -> None:
    """Under any name, in any place."""
    assert Redactor().data({"x": [SHAPES[kind]], "y": "plain"}) == {"x": [REDACTED], "y": "plain"}


@pytest.mark.parametrize("text", list(PARTS))
def test_only_the_secret_in_a_text_is_replaced(text: str) -> None:
    """The rest stays readable; text that is already redacted does not change."""
    redact = Redactor()
    assert redact.text(text) == PARTS[text]
    assert redact.text(PARTS[text]) == PARTS[text]


@pytest.mark.parametrize("line", CODE)
def test_lines_of_code_stay(line: str) -> None:
    """An assignment in a traceback is code, not a secret."""
    assert Redactor().text(line) == line


def test_random_values_are_secrets_only_under_the_name_of_a_secret() -> None:
    """A commit hash stays; the same value under ``session.key`` does not."""
    data = {"commit": HEX, "name": RANDOM, "room": {"key": HEX}, "upload_sig": RANDOM, "my_token": RANDOM}
    hidden = {"room": {"key": REDACTED}, "upload_sig": REDACTED, "my_token": REDACTED}
    assert Redactor().data(data) == {**data, **hidden}


def test_the_name_may_be_spread_over_levels_or_be_part_of_a_value() -> None:
    """``api: {key: ..}``, variables of a container, a command line, whole lists and mappings of secrets."""
    data: dict[str, Any] = {
        "api": {"key": "hunter2"},
        "env": [{"name": "HF_TOKEN", "value": "abc"}, {"name": "LR", "value": "1"}],
        "argv": ["train.py", "--password", "hunter2", "--max-tokens", "5"],
        "secrets": {"a": "b"},
        "api_keys": ["a", "b"],
        "password": 1234,
        "header": "Bearer abcdefgh",
    }
    assert Redactor().data(data) == {
        "api": {"key": REDACTED},
        "env": [{"name": "HF_TOKEN", "value": REDACTED}, {"name": "LR", "value": "1"}],
        "argv": ["train.py", "--password", REDACTED, "--max-tokens", "5"],
        "secrets": REDACTED,
        "api_keys": REDACTED,
        "password": REDACTED,
        "header": REDACTED,
    }


def test_a_script_and_the_environment_name_further_secrets_or_switch_it_off() -> None:
    """``redact=`` takes precedence over the variables."""
    data = {"customer_id": "c1", "site": "x", "password": "p"}
    both = redactor(["Customer*"], {"TOCSIN_REDACT_KEYS": "site, other"})
    assert both.data(data) == dict.fromkeys(data, REDACTED)
    assert redactor(None, {"TOCSIN_REDACT": "0"}).data(data) == data
    assert redactor(False, {}).data(data) == data
    assert redactor(True, {"TOCSIN_REDACT": "0"}).data(data) == {**data, "password": REDACTED}


@pytest.mark.parametrize(
    "part", ["-----BEGIN X-----", "eyJ-", "a", "a://x:", "password=", "--a ", "sk-ant-", "'"]
)
def test_long_texts_take_time_in_proportion(part: str) -> None:
    """Half a million letters take no noticeable time: no pattern starts in the middle of a word."""
    begun = time.process_time()
    Redactor().text(part * (500_000 // len(part)))
    assert time.process_time() - begun < 20  # a quadratic pattern takes hours


def test_no_message_of_a_run_contains_a_secret(server: IngestServer, spool: Any) -> None:
    """Configuration, notes, events, batches and the error of a run that failed."""
    body = (
        "run = watch(config={'db': {'password': 'hunter2'}, 'max_tokens': 5}, notes='api_key=hunter2')\n"
        "run.event('upload', url='ftp://me:hunter2@host/x')\n"
        "train(run, 3)\n"
        "raise ValueError('cannot log in with password=hunter2')\n"
    )
    run_script(body, server.url, spool)
    wait_until(lambda: server.writers and server.only.finish is not None)
    kept = server.only
    assert kept.hellos[0].config == {"db": {"password": REDACTED}, "max_tokens": 5}
    sent = repr((kept.hellos, kept.events, kept.finish))
    assert sent.count(REDACTED) >= 5
    assert "hunter2" not in sent


def test_the_host_may_have_another_name_or_none(server: IngestServer, spool: Any) -> None:
    """By argument, else by variable; then no address of the host is sent either."""
    ranks = {"MASTER_ADDR": "node7.corp", "MASTER_PORT": "29500", "WORLD_SIZE": "2", "RANK": "0"}
    for body, environ in (
        ("watch(host='w1')", {**ranks, "TOCSIN_HOSTNAME": "w2"}),
        ("watch()", {**ranks, "TOCSIN_HOSTNAME": "w2"}),
        ("watch()", {"TOCSIN_HOSTNAME": ""}),
        ("watch()", {"TOCSIN_HOSTNAME": "w3", "PMIX_NAMESPACE": "prterun-node7-4711@1"}),
    ):
        run_script(f"run = {body}\ntrain(run, 1)\n", server.url, spool, environ=environ)
    hellos = [kept.hellos[0] for kept in server.writers.values()]
    assert [hello.host for hello in hellos] == ["w1", "w2", "", "w3"]
    assert hellos[0].rendezvous == hellos[1].rendezvous != ""
    assert not [hello for hello in hellos if "node7" in repr(hello)]
