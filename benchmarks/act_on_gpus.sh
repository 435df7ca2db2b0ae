#!/usr/bin/env bash
# What docs/results/act_ladder is made of, in one call on a node with GPUs; what a run prints goes to OUT/NAME.txt.
#
#   bash benchmarks/act_on_gpus.sh OUT [RANKS [PART ...]]      parts: doctor aa ladder beyond settings numa one numerics traces
#   OVERRIDES="workload.steps=150 measure.window=[51,150]" bash ...  shorter runs, or any other setting, for all parts
#   PLAN=1 bash benchmarks/act_on_gpus.sh OUT 2                shows what would run, and runs nothing
#
# With one rank it starts under torchrun, which makes a process group of one: DDP's own work is there, communication is not.
# About an hour and a half on two H200, of which compiling takes half; without PARTs all of them, in this order. Called
# again with the same OUT it goes on: finished runs stay, what was cut off is measured.
set -eu
out=$1
ranks=${2:-$(nvidia-smi -L | wc -l)}
shift $(($# < 2 ? $# : 2))
parts=${*:-doctor aa ladder beyond settings numa one numerics traces}
verb=${PLAN:+plan}
common=("output_dir=$out/sweeps" "ranks.nproc_per_node=$ranks")
read -ra overrides <<< "${OVERRIDES:-}"
common+=("${overrides[@]}")
[ "$ranks" -gt 1 ] || common+=(launchers=torchrun)
mkdir -p "$out"

keep() { # NAME COMMAND...: a part that fails is told, and the next one begins
  local name=$1
  shift
  echo "$name: $*"
  "$@" > "$out/$name.txt" 2> "$out/$name.err" || echo "$name ended with exit code $?; see $out/$name.err"
}

begun() { # NAME: the folder of a sweep that an earlier call began
  [ -n "$verb" ] || ls -d "$out/sweeps/$1"/*/ 2> /dev/null | tail -1
}

measure() { # NAME COMMAND...: begins a sweep, or goes on with it
  local name=$1 folder
  shift
  folder=$(begun "$name")
  [ -z "$folder" ] || set -- interlace resume "$folder"
  keep "$name" "$@"
}

sweep() { # NAME ARGUMENTS...
  local name=$1
  shift
  measure "$name" interlace "${verb:-sweep}" "name=$name" "${common[@]}" "$@"
}

numerics() { # the first steps of every arm without dropout, with torch's own generators in the compiled arms, too
  sweep act_numerics sweeps=act_ladder rounds=1 burn_in=false workload.steps=20 "measure.window=[1,20]" \
    workload.model.dropout=0.0 workload.compile.fallback_random=true
  [ -n "$verb" ] || keep numerics python3 "$(dirname "$0")/act_numerics.py" "$(begun act_numerics)"
}

for part in $parts; do
  case $part in
    doctor) keep doctor interlace doctor ;;
    aa) [ -n "$verb" ] || measure act_aa interlace aa workload=act name=act_aa "${common[@]}" ;;
    ladder) sweep act_ladder sweeps=act_ladder rounds=3 ;;
    beyond) sweep act_beyond sweeps=act_beyond rounds=3 ;;
    settings) sweep act_settings sweeps=act_settings rounds=3 ;;
    numa) sweep act_numa workload=act "numa.bind=auto,off" rounds=4 ;;
    one) [ "$ranks" = 1 ] || sweep act_ddp_vs_one sweeps=act_ddp_vs_one rounds=3 ;;
    numerics) numerics ;;
    traces)
      sweep act_traces sweeps=act_ladder "only=[baseline,beyond]" rounds=1 burn_in=false workload.steps=64 "measure.window=[21,55]" \
        workload.profile.first=60 "workload.profile.ranks=[$(seq -s, 0 $((ranks - 1)))]"
      ;;
    *) echo "no part is called $part" >&2 && exit 2 ;;
  esac
done
