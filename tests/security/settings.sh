#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Spellings of a repository's settings that make git run something: git itself is
# asked whether it reads them so, and the annotation of git must see them all.
set -u
export LC_ALL=C
. "$FERRY_SRCDIR/tests/tap.sh"
command -v git >/dev/null || skip_all "no git"
scratch=$(mktemp -d "${TMPDIR:-/tmp}/ferry-settings.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT

dumped=$("$FERRY_BUILDDIR/ferry" check \
    "$FERRY_SRCDIR/annotations/lib/commands/git.ferry" --argv git status)
# pattern_of FILE: what keeps the command here when a line of it matches
pattern_of()
{
    printf '%s\n' "$dumped" | grep -F " absent \"$1\" matching" |
        sed 's/^ *absent ".*" matching "\(.*\)"$/\1/; s/\\\(.\)/\1/g'
}
where=.git/config
pattern=$(pattern_of $where)

# seen KEY TEXT: TEXT (for printf) sets KEY, and is seen
seen()
{
    name="$where: $1 $(printf '%s' "$2" | tr '\\\\' '|')"
    # shellcheck disable=SC2059
    printf "$2" >"$scratch/config"
    if ! git config -f "$scratch/config" --name-only -l 2>/dev/null |
        grep -qix "$1"; then
        skip "$name" "this git does not read it as $1"
    elif grep -Eiq "$pattern" "$scratch/config"; then
        ok "$name"
    else
        not_ok "$name"
    fi
}

seen core.hooksPath '[core]\nhooksPath = x\n'
seen core.hooksPath '[core]hooksPath=x\n'
seen core.fsmonitor '[core]\nbare = false\nfsmonitor\n'
seen core.fsmonitor '[core]\r\nfsmonitor\r\n'
seen filter.x.clean '[filter "x"]\nclean = x\n'
seen filter.x.clean '[core] [filter "x"]\nclean = x\n'
seen filter.x.clean '[filter.x]\nclean = x\n'
seen filter.x.clean '\357\273\277[filter "x"]\nclean = x\n'
seen diff.x.command '[diff "x"]\ncommand = x\n'
seen diff.x.command '[diff.x]\ncommand = x\n'
seen diff.x.textconv '[core][diff.x] textconv = x\n'
seen diff.external '[diff]\nexternal = x\n'
seen include.path '[a][include]\npath = x\n'
seen includeif.gitdir:/.path '[includeIf "gitdir:/"]\npath = x\n'
seen gpg.program '[gpg]\nprogram = x\n'
seen format.pretty '[format]\npretty = %%G?\n'
seen format.pretty '[format]\npretty = %%\\\nG?\n'
seen format.pretty '[format]\npretty = "%%""G?"\n'
seen merge.x.driver '[merge "x"]\ndriver = x\n'
seen merge.x.driver '[merge.x]driver = x\n'
seen remote.o.promisor '[remote "o"]\npromisor = true\n'
seen remote.o.partialclonefilter '[remote "o"]partialCloneFilter=blob:none\n'
seen hook.x.command '[hook "x"]\ncommand = x\n'
seen gc.recentObjectsHook '[gc]\nrecentObjectsHook = x\n'
seen status.submoduleSummary '[status]\nsubmoduleSummary\n'
seen diff.submodule '[diff]\nsubmodule = diff\n'
seen extensions.objectFormat '[extensions]\nobjectFormat = sha256\n'
seen index.sparse '[index]\nsparse\n'
seen pager.log '[pager]\nlog = x\n'

# Attributes of folders below may name what these have.
# shellcheck disable=SC2088
for where in '~/.gitconfig' '~/.config/git/config' /etc/gitconfig; do
    pattern=$(pattern_of "$where")
    seen core.fsmonitor '[core]\nfsmonitor = x\n'
    seen filter.x.clean '[filter "x"]\nclean = x\n'
    seen filter.x.clean '[core] [filter.x]\nclean = x\n'
    seen diff.x.command '[diff "x"]\ncommand = x\n'
    seen diff.x.command '[diff.x]\ncommand = x\n'
    seen diff.x.textconv '[diff "x"]\ntextconv = x\n'
    seen diff.external '[diff]\nexternal = x\n'
    seen include.path '[include]\npath = x\n'
    seen gpg.program '[gpg]\nprogram = x\n'
    seen merge.x.driver '[merge "x"]\ndriver = x\n'
    seen hook.x.command '[hook "x"]\ncommand = x\n'
done
printf '[user]\n\temail = a@b\n[diff]\n\talgorithm = patience\n[core]\n\teditor = x\n' \
    >"$scratch/config"
if grep -Eiq "$pattern" "$scratch/config"; then
    not_ok "plain settings of a user are none of these"
else
    ok "plain settings of a user are none of these"
fi
pattern=$(pattern_of .git/config)

printf '[core]\n\tbare = false\n[user]\n\temail = a@b\n[remote "o"]\n' \
    >"$scratch/config"
if grep -Eiq "$pattern" "$scratch/config"; then
    not_ok "a plain repository is none of these"
else
    ok "a plain repository is none of these"
fi
finish
