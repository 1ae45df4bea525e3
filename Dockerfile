# The server alone; training machines install the hook (client_hook/). No PyTorch in here.
FROM python:3.13-slim AS build
WORKDIR /src
COPY client_hook client_hook
COPY pyproject.toml README.md CHANGELOG.md LICENSE ./
COPY server server
COPY web web
COPY migrations migrations
RUN pip install --no-cache-dir --prefix=/install ./client_hook '.[postgres]'

FROM python:3.13-slim
RUN useradd --system --uid 10001 --create-home --home-dir /data tocsin
COPY --from=build /install /usr/local
USER tocsin
ENV TOCSIN_DATA_DIR=/data TOCSIN_HOST=0.0.0.0 PYTHONUNBUFFERED=1
VOLUME /data
EXPOSE 8321
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8321/api/v1/health', timeout=2)"]
ENTRYPOINT ["tocsin-server"]
CMD ["serve"]
