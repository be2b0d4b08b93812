#!/usr/bin/env bash
# Wheels that `pagehold up` needs and a GPU machine without a package index may lack, for Python 3.12 on x86-64.
#
#     benchmarks/gpu_wheels.sh                     here: download them into .wheels/
#     benchmarks/gpu_wheels.sh --install FOLDER    there: install them into FOLDER, from .wheels/ alone
#
# Taken to be there: torch, triton, safetensors, tokenizers, huggingface-hub, numpy, cupy and cuda-bindings, nvidia-ml-py,
# grpcio 1.84, typer, rich, prometheus-client, jinja2, uvloop. The companions of grpcio are of its own version, and want a
# protobuf as new. Older transformers import torch with a tokenizer, which makes front doors slow to start.
set -euo pipefail
cd "$(dirname "$0")/.."

wheels=.wheels
companions=(grpcio-channelz grpcio-health-checking grpcio-reflection grpcio-status)
others=(annotated-types googleapis-common-protos pydantic pydantic-core pydantic-settings protobuf python-dotenv structlog transformers typing-extensions typing-inspection)

if [[ ${1-} == --install ]]; then
    python3 -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir --upgrade --target "$2" "$wheels"/*.whl
    exit
fi

mapfile -t pinned < <(for name in "${others[@]}"; do grep "^$name==" lock.txt; done)
rm -rf "$wheels"
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.12 \
    --implementation cp --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 --dest "$wheels" \
    "${companions[@]/%/==1.84.0}" "${pinned[@]}"
du -sh "$wheels"
