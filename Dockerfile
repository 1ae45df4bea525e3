# The server alone; training machines install the hook (client_hook/). No PyTorch in here.
# PYTHON may name a digest: docker build --build-arg PYTHON=3.13-slim-trixie@sha256:...
ARG PYTHON=3.13-slim-trixie

FROM python:${PYTHON} AS build
WORKDIR /src
COPY client_hook client_hook
COPY pyproject.toml README.md CHANGELOG.md LICENSE ./
COPY server server
COPY web web
COPY migrations migrations
RUN pip install --no-cache-dir --prefix=/install ./client_hook '.[mcp,parquet,postgres]'

FROM python:${PYTHON}
RUN useradd --system --uid 10001 --create-home --home-dir /data tocsin
COPY --from=build /install /usr/local
USER tocsin
ENV TOCSIN_DATA_DIR=/data TOCSIN_HOST=0.0.0.0 TOCSIN_PORT=8321 PYTHONUNBUFFERED=1
VOLUME /data
EXPOSE 8321
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
  CMD ["python", "-c", "import os, urllib.request as r; r.urlopen(f'http://127.0.0.1:{os.environ[\"TOCSIN_PORT\"]}/api/v1/ready', timeout=2)"]
ENTRYPOINT ["tocsin-server"]
CMD ["serve"]
