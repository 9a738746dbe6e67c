# SPDX-License-Identifier: Apache-2.0
# sh=bash placed=18
# mapfile, read -d '', arrays, arithmetic, select of newest, functions with local.
mapfile -t files < <(find . -name '*.txt' -path './notes/*' | sort); echo "${#files[@]} ${files[0]}"
while IFS= read -r -d '' f; do echo "${f##*/}: $(wc -c <"$f")"; done < <(find photos -type f -print0 | sort -z)
declare -A sum; while IFS=, read -r _ c _ a; do ((sum[${c%???}] += ${a%.*})) 2>/dev/null; done < <(tail -n +2 csv/orders.csv); for k in "${!sum[@]}"; do echo "$k ${sum[$k]}"; done | sort
count() { local n; n=$(grep -c "$1" "$2") || return 1; echo "$n"; }; count apple notes/a.txt; count zzz notes/a.txt; echo $?
newest=$(ls -t photos | head -1); [ -n "$newest" ]; echo $?
readarray -t -n 3 lines <notes/a.txt; printf '<%s>\n' "${lines[@]}"; IFS=$'\n' read -r -d '' -a all <notes/c.txt; echo "${#all[@]}"
x=$(<notes/c.txt); echo "${#x}"; read -r -N 5 y <notes/a.txt; echo "$y"; printf -v z '%s' "$(head -c 3 notes/b.txt)"; echo "$z"; [[ $(file -b notes/a.txt 2>/dev/null) == *text* ]]; echo $?
shopt -s nullglob globstar extglob
echo **/*.c; echo notes/!(a).txt; for f in nosuch*; do echo no; done; compgen -f src/ | sort; echo {1..3}.txt; printf '%s\n' notes/*.txt | xargs -n1 basename -s .txt | paste -sd,
diff <(printf '%s\n' "${files[@]}") <(printf '%s\n' notes/*.txt | sed 's,^,./,') && echo equal; wc -l "${files[@]}" | tail -1; (IFS=:; echo "${files[*]}"); echo $((16#ff)) $(( $(wc -l <notes/a.txt) * 2 )); sort <<<$'b\na'; cat <<<"$(cat notes/c.txt | tail -1)"
