# shellcheck shell=sh
# ./ioh.sh --install and --uninstall, which source this file.
#
#   --install [PREFIX]  copy this checkout to PREFIX (/opt/ioh), owned by root; make the program
#                       that runs it, links to the manual page and completions, the user ioh
#   --uninstall         in such a copy: remove all of that; the distribution's packages stay
#
# IOH_LINKS  directory for the program and the links (default /usr/local)

# shellcheck disable=SC2154  # root, uid come from ioh.sh
COPIED="ioh.sh pyproject.toml requirements.lock LICENSE README.md SECURITY.md CHANGELOG.md
contrib docs ioh man probes screenshots"
# Links below IOH_LINKS, and their targets in PREFIX; the first is the program.  fish does not
# search /usr/local unless XDG_DATA_DIRS has it.
LINKS="bin/ioh:ioh.sh
share/man/man8/ioh.8:man/ioh.8
share/bash-completion/completions/ioh:contrib/completion/ioh.bash
share/zsh/site-functions/_ioh:contrib/completion/_ioh
../../etc/fish/completions/ioh.fish:contrib/completion/ioh.fish"
COMPILED=/var/cache/ioh # by ioh/bpf/compiled.py
UNIT=/etc/systemd/system/ioh.service # by ioh serve --install-unit
LOCK=/run/ioh-install.lock
# First line: IOH_LINKS; then what --install created: directories, outermost first, and MADE_USER.
RECORD=installed.txt
MADE_USER="user ioh"

choose_prefix() {
    prefix=${1:-/opt/ioh}
    while [ "$prefix" != "${prefix%/}" ]; do prefix=${prefix%/}; done
    case $prefix/ in
    */../* | */./* | *//* | / | *\'* | *"$newline"*) ;;
    /*) return ;;
    esac
    die "cannot install in \"$1\": give the absolute path of a directory only for ioh, as /opt/ioh"
}

# Dies unless $1 and each directory on the way are real ones that only root can change.  Nobody
# else can then put a link or another directory there, so what was checked stays as it was.
check_path() {
    place=$1
    case $place in /*) ;; *) die "\"$place\" is not an absolute path" ;; esac
    set -- /
    while [ -n "$place" ]; do
        { [ ! -e "$place" ] && [ ! -L "$place" ]; } || set -- "$@" "$place"
        place=${place%/*}
    done
    fault=$(find "$@" -prune \( -type l -printf '%p is a link' -o ! -type d -printf '%p is a file' \
        -o ! -user 0 -printf '%p belongs to %u' \
        -o -perm /022 -printf 'other users can write to %p' \) -quit)
    [ -z "$fault" ] || die "$fault: give a place that root alone can change"
}

read_record() { # of the copy in $prefix
    check_path "$prefix"
    [ -n "$(find "$prefix/$RECORD" -prune -type f -user 0 ! -perm /022 2>/dev/null)" ] ||
        die "ioh.sh did not install $prefix: it has no $RECORD that only root can change"
    links=$(sed -n 1p "$prefix/$RECORD") made=$(sed 1d "$prefix/$RECORD")
}

program_line() { printf '%s\n' "exec /bin/sh '$prefix/ioh.sh' --run \"\$@\""; }

is_ours() { # does $1 lead to $2?
    [ "$(readlink "$1")" = "$2" ] || grep -qsxF "$(program_line)" "$1"
}

each_link() { # runs "$@ LINK TARGET" for every link
    while IFS=: read -r link target; do
        [ -z "$link" ] || "$@" "$links/$link" "$prefix/$target"
    done <<END
$LINKS
END
}

for_parent() { "$1" "${2%/*}"; } # of a link

refuse_other() { # any file except ours, and a link to a checkout as in the documentation
    check_path "${1%/*}"
    [ -e "$1" ] || [ -L "$1" ] || return 0
    case $(readlink "$1") in */ioh.sh) return ;; esac
    is_ours "$1" "$2" || die "$1 exists, and ioh.sh did not create it:" \
        "remove it, or set IOH_LINKS to another directory"
}

make_directory() { # with its parents; add the new ones to $made
    [ -z "$1" ] || [ -d "$1" ] || {
        make_directory "${1%/*}"
        mkdir "$1"
        made=$made$newline$1
    }
}

make_link() { # a sudo rule may name the program, so it can do no more than run ioh
    case $2 in
    */ioh.sh)
        printf '%s\n' '#!/bin/sh' "# Runs ioh, and nothing else; sudo $2 --uninstall removes it." \
            "$(program_line)" >"$1.new"
        chmod 755 "$1.new"
        mv -f "$1.new" "$1"
        ;;
    *) ln -sfn "$2" "$1" ;;
    esac
}

make_user() { # ioh becomes this user, if it exists and root itself starts ioh
    if id ioh >/dev/null 2>&1; then return; fi
    if useradd --system --no-create-home --shell /usr/sbin/nologin ioh; then
        echo "$MADE_USER" >>"$prefix/$RECORD"
    else
        say "there is no user ioh: started by root itself, ioh becomes nobody"
    fi
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
    fi
    remove_made
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
        case $directory in /*) rmdir "$directory" 2>/dev/null || : ;; esac
    done <<END
$reversed
END
}

install_ioh() {
    links=${IOH_LINKS:-/usr/local} made=''
    staged=$prefix.installing old=$prefix.replaced
    [ "$root" != "$prefix" ] || die "this is the installed copy: run --install in a checkout"
    check_path "$prefix"
    umask 077
    exec 8>>"$LOCK" # of root's alone: nobody else can hold it
    umask 022
    flock -n 8 2>/dev/null || [ $? != 1 ] || die "another --install is at work"
    # Of an --install that was killed; nobody but root can have made them.
    [ -e "$prefix" ] || [ ! -d "$old" ] || mv "$old" "$prefix"
    rm -rf "$staged" "$old"
    if [ -e "$prefix" ]; then
        read_record
        [ "$links" = "${IOH_LINKS:-/usr/local}" ] ||
            die "$prefix has its links in $links: run $prefix/ioh.sh --uninstall first"
    fi
    each_link refuse_other
    [ -e "$COMPILED" ] || made=$made$newline$COMPILED
    trap back_out EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    make_directory "${prefix%/*}"
    each_link for_parent make_directory
    mkdir "$staged"
    say "copying $root to $prefix"
    copy_into "$staged"
    printf '%s\n' "$links" "$made" >"$staged/$RECORD" # now: kill -9 leaves what can be replaced
    if [ -d "$prefix" ]; then mv "$prefix" "$old"; fi
    mv "$staged" "$prefix"
    # Only if all files, also those that links lead to, are root's; the stamp shows whether it is
    # current.
    [ -n "$(find -L "$old/.venv" \( ! -user 0 -o -perm /022 \) -print -quit 2>&1)" ] ||
        mv "$old/.venv" "$prefix/"
    sh "$prefix/ioh.sh" --setup || exit
    "$prefix/.venv/bin/python" -I -m compileall -q "$prefix/ioh" >/dev/null 2>&1 || :
    each_link make_link
    trap - EXIT INT TERM HUP
    rm -rf "$old"
    make_user
    say "installed $links/bin/ioh; remove it with: sudo $prefix/ioh.sh --uninstall"
}

remove_unit() { # if it runs the copy to be removed
    grep -qsF "ExecStart=$prefix/.venv/" "$UNIT" || return 0
    [ ! -d /run/systemd/system ] || systemctl --quiet disable --now ioh.service
    rm -f "$UNIT"
    [ ! -d /run/systemd/system ] || systemctl daemon-reload
}

uninstall_ioh() {
    { [ $# = 0 ] && [ -f "$root/$RECORD" ]; } ||
        die "a copy that --install made removes itself: sudo ${1:-/opt/ioh}/ioh.sh --uninstall"
    prefix=$root
    read_record
    each_link for_parent check_path
    cd / # the current directory may be in $prefix
    each_link remove_link
    remove_unit
    rm -rf "$prefix"
    case $newline$made$newline in *"$newline$COMPILED$newline"*) rm -rf "$COMPILED" ;; esac
    case $newline$made$newline in *"$newline$MADE_USER$newline"*) userdel ioh || : ;; esac
    remove_made
    say "removed $prefix and its links; the distribution's packages stay"
}

[ $# -le 2 ] || die "$1 takes at most one directory"
if [ "$uid" != 0 ]; then
    can_sudo || die "root is needed: sudo $root/ioh.sh $*"
    exec sudo -- env ${IOH_LINKS:+"IOH_LINKS=$IOH_LINKS"} sh "$root/ioh.sh" "$@"
fi
case $1 in
--install)
    choose_prefix "${2-}"
    install_ioh
    ;;
--uninstall)
    shift
    uninstall_ioh "$@"
    ;;
esac
