#!/usr/bin/env bash
# Generates Python (messages, their types, and stubs where a file has a service) from every .proto file under protos/pagehold.
#
#   generate.sh PYTHON            write it beside the .proto files; generated files without a .proto go
#   generate.sh --check PYTHON    change nothing; fail where the committed files differ from what would be written
#
# PYTHON is an interpreter that has grpcio-tools.
set -euo pipefail

check=false
if [[ ${1-} == --check ]]; then
    check=true
    shift
fi
python=$(realpath -s "${1:?usage: generate.sh [--check] PYTHON}")
cd "$(dirname "${BASH_SOURCE[0]}")"

fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT

mapfile -t protos < <(find pagehold -name '*.proto' | sort)
mapfile -t services < <(grep -l '^service ' "${protos[@]}" /dev/null || true)
if ((${#protos[@]})); then
    "$python" -m grpc_tools.protoc -I. --python_out="$fresh" --pyi_out="$fresh" "${protos[@]}"
fi
if ((${#services[@]})); then
    "$python" -m grpc_tools.protoc -I. --grpc_python_out="$fresh" "${services[@]}"
fi

list() { (cd "$1" && find . -name '*_pb2*.py' -o -name '*_pb2*.pyi') | sort; }

outdated=false
while read -r file; do
    cmp -s "$fresh/$file" "$file" && continue
    if $check; then
        echo "protos/${file#./} is not what its .proto file gives" >&2
        outdated=true
    elif [[ -e $fresh/$file ]]; then
        mkdir -p "$(dirname "$file")"
        cp "$fresh/$file" "$file"
    else
        rm "$file"
    fi
done < <(sort -u <(list "$fresh") <(list .))

if $outdated; then
    echo "run: make proto" >&2
    exit 1
fi
