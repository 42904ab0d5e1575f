# shellcheck shell=sh
# ./ioh.sh --install and --uninstall, which source this file.
#
#   --install [PREFIX]    copy this checkout to PREFIX (/opt/ioh), owned by root, and link the
#                         program, the manual page and the completion
#   --uninstall [PREFIX]  remove all of that; the distribution's packages stay
#
# IOH_LINKS  directory for the links (default /usr/local)

# shellcheck disable=SC2154  # root, uid come from ioh.sh
COPIED="ioh.sh pyproject.toml requirements.lock LICENSE README.md SECURITY.md CHANGELOG.md
contrib docs ioh man probes screenshots"
# Links below IOH_LINKS, and their targets in PREFIX.  fish does not search /usr/local unless
# XDG_DATA_DIRS has it.
LINKS="bin/ioh:ioh.sh
share/man/man8/ioh.8:man/ioh.8
share/bash-completion/completions/ioh:contrib/completion/ioh.bash
share/zsh/site-functions/_ioh:contrib/completion/_ioh
../../etc/fish/completions/ioh.fish:contrib/completion/ioh.fish"
COMPILED=/var/cache/ioh # by ioh/bpf/compiled.py
UNIT=/etc/systemd/system/ioh.service # by ioh serve --install-unit
# First line: IOH_LINKS; then the directories created by --install, outermost first.
RECORD=installed.txt

choose_prefix() {
    prefix=${1:-/opt/ioh}
    while [ "$prefix" != "${prefix%/}" ]; do prefix=${prefix%/}; done
    case $prefix/ in
    */../* | */./* | *//* | /) ;;
    /*) return ;;
    esac
    die "cannot install in \"$1\": give the absolute path of a directory only for ioh, as /opt/ioh"
}

# Users who can write to a parent directory could replace what root runs.
check_parents() { # of $1
    parent=$1
    while [ -n "$parent" ]; do
        parent=${parent%/*}
        [ -d "$parent/." ] || continue
        [ -z "$(find "$parent/." -prune \( ! -user 0 -o ! -perm -1000 \
            \( -perm -002 -o -perm -020 ! -group 0 \) \))" ] ||
            die "other users can write to ${parent:-/}: choose a place that only root can change"
    done
}

is_ours() { [ "$(readlink "$1")" = "$2" ]; } # does link $1 lead to $2?

each_link() { # runs "$@ LINK TARGET" for every link
    while IFS=: read -r link target; do
        [ -z "$link" ] || "$@" "$links/$link" "$prefix/$target"
    done <<END
$LINKS
END
}

refuse_other() { # any file except our links, and a link to a checkout as in the documentation
    [ -e "$1" ] || [ -L "$1" ] || return 0
    case $(readlink "$1") in */ioh.sh | "$2") return ;; esac
    die "$1 exists, and ioh.sh did not create it: remove it, or set IOH_LINKS to another directory"
}

make_directory() { # with its parents; add the new ones to $made
    [ -z "$1" ] || [ -d "$1" ] || {
        make_directory "${1%/*}"
        mkdir "$1"
        made=$made$newline$1
    }
}

make_link() {
    make_directory "${1%/*}"
    ln -sfn "$2" "$1"
}

remove_link() { ! is_ours "$1" "$2" || rm "$1"; }

copy_into() {
    for name in $COPIED; do cp -RL "$root/$name" "$1/"; done
    find "$1" -name __pycache__ -prune -exec rm -rf {} +
    chown -Rh 0:0 "$1"
    chmod -R u=rwX,go=rX "$1"
}

back_out() { # after an --install that failed or was interrupted
    status=$?
    rm -rf "$staged"
    if [ -d "$old" ]; then
        [ -d "$old/.venv" ] || [ ! -d "$prefix/.venv" ] || mv "$prefix/.venv" "$old/"
        rm -rf "$prefix"
        mv "$old" "$prefix"
    else
        rm -rf "$prefix" # did not exist before, see install_ioh
        each_link remove_link
        remove_made
    fi
    exit "$status"
}

remove_made() { # remove the directories in $made that are empty, innermost first
    reversed=
    while IFS= read -r directory; do
        [ -z "$directory" ] || reversed=$directory$newline$reversed
    done <<END
$made
END
    while IFS= read -r directory; do
        [ -z "$directory" ] || rmdir "$directory" 2>/dev/null || :
    done <<END
$reversed
END
}

install_ioh() {
    links=${IOH_LINKS:-/usr/local} made=''
    [ "$root" != "$prefix" ] || die "this is the installed copy: run --install in a checkout"
    [ ! -e "$prefix" ] || [ -f "$prefix/$RECORD" ] ||
        die "$prefix exists, and ioh.sh did not install it: give another directory"
    check_parents "$prefix"
    each_link refuse_other
    if [ -f "$prefix/$RECORD" ]; then
        [ "$(sed -n 1p "$prefix/$RECORD")" = "$links" ] ||
            die "$prefix has its links in $(sed -n 1p "$prefix/$RECORD"): run --uninstall first"
        made=$(sed 1d "$prefix/$RECORD")
    fi
    [ -e "$COMPILED" ] || made=$made$newline$COMPILED
    umask 022
    staged=$prefix.new.$$ old=$prefix.old.$$
    trap back_out EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    make_directory "${prefix%/*}"
    mkdir "$staged"
    say "copying $root to $prefix"
    copy_into "$staged"
    if [ -d "$prefix" ]; then mv "$prefix" "$old"; fi
    mv "$staged" "$prefix"
    [ ! -d "$old/.venv" ] || mv "$old/.venv" "$prefix/" # its stamp shows whether it is current
    sh "$prefix/ioh.sh" --setup || exit
    "$prefix/.venv/bin/python" -I -m compileall -q "$prefix/ioh" >/dev/null 2>&1 || :
    each_link make_link
    printf '%s\n' "$links" "$made" >"$prefix/$RECORD"
    trap - EXIT INT TERM HUP
    rm -rf "$old"
    say "installed $links/bin/ioh; remove it with: $links/bin/ioh --uninstall"
}

remove_unit() { # if it runs the copy to be removed
    grep -qsF "ExecStart=$prefix/.venv/" "$UNIT" || return 0
    [ ! -d /run/systemd/system ] || systemctl --quiet disable --now ioh.service
    rm -f "$UNIT"
    [ ! -d /run/systemd/system ] || systemctl daemon-reload
}

uninstall_ioh() {
    [ -f "$prefix/$RECORD" ] || die "$prefix was not installed by ioh.sh --install"
    links=$(sed -n 1p "$prefix/$RECORD") made=$(sed 1d "$prefix/$RECORD")
    cd / # the current directory may be in $prefix
    each_link remove_link
    remove_unit
    rm -rf "$prefix"
    case $newline$made$newline in *"$newline$COMPILED$newline"*) rm -rf "$COMPILED" ;; esac
    remove_made
    say "removed $prefix and its links; the distribution's packages stay"
}

[ $# -le 2 ] || die "$1 takes at most one directory"
if [ "$uid" != 0 ]; then
    can_sudo || die "root is needed: sudo $root/ioh.sh $*"
    exec sudo -- env ${IOH_LINKS:+"IOH_LINKS=$IOH_LINKS"} sh "$root/ioh.sh" "$@"
fi
verb=$1
shift
[ "$verb" != --uninstall ] || [ $# != 0 ] || [ ! -f "$root/$RECORD" ] || set -- "$root"
choose_prefix "$@"
case $verb in
--install) install_ioh "$@" ;;
--uninstall) uninstall_ioh ;;
esac
