# One image for every part of an installation; compose.yaml says which command each service runs. docs/deployment.md explains both.

FROM python:3.11-slim-bookworm AS packages
# A pip index that holds a CPU build of PyTorch, where the plain one would bring gigabytes of GPU packages.
ARG TORCH_INDEX=""
# 1 for an image that can fine-tune and serve a teacher (docs/routing.md).
ARG TEACHER=""
# 1 for an image that can send traces (docs/operations.md).
ARG TRACES=""
ENV PIP_DISABLE_PIP_VERSION_CHECK=1
COPY requirements.txt requirements-teacher.txt requirements-traces.txt /tmp/
RUN python -m venv /opt/routerweb \
    && PIP_EXTRA_INDEX_URL="${TORCH_INDEX}" /opt/routerweb/bin/pip install --no-cache-dir -r /tmp/requirements.txt ${TEACHER:+-r /tmp/requirements-teacher.txt} ${TRACES:+-r /tmp/requirements-traces.txt}

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
# The key is for this one command and stays in no layer: the settings ask for one.
RUN mkdir -p /srv/data/static \
    && SECRET_KEY=only-while-building PLAIN_HTTP=1 python manage.py collectstatic --no-input --verbosity 0 \
    && python -m compileall -q . \
    && chown routerweb:routerweb /srv/data
ENV PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
EXPOSE 8000
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=3 CMD ["python", "-m", "routerweb.health"]
CMD ["python", "manage.py", "up", "web"]
