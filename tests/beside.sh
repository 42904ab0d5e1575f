# shellcheck shell=sh
# Runs commands in parallel; tests/run.sh sources it.  Each has a process group of its own, which is
# ended as a whole; finish waits for them in order and shows the output of each.

groups=

start() { # $1 names it in the verdict, the rest is a program with its arguments
    if [ -z "$groups" ]; then
        told=$(mktemp -d)
        trap 'end_groups; exit 143' TERM HUP
        trap 'end_groups; exit 130' INT
    fi
    say "$1 ..."
    set -- "$told/$(echo "$groups" | wc -w)" "$@"
    echo "$2" >"$1.name"
    one=$1
    shift 2
    setsid "$@" >"$one" 2>&1 </dev/null &
    groups="$groups $!=$one"
}

finish() { # waits for everything that was started
    for group in $groups; do
        step "$(cat "${group#*=}.name")" told_by "${group%%=*}" "${group#*=}"
    done
    rm -rf "$told"
    groups=
}

told_by() {
    status=0
    wait "$1" || status=$?
    cat "$2"
    return "$status"
}

end_groups() {
    for group in $groups; do
        kill -s TERM -- "-${group%%=*}" 2>/dev/null || :
    done
    wait
    [ -z "$groups" ] || rm -rf "$told"
}
