# shellcheck shell=sh
# shellcheck disable=SC3028,SC3067  # EUID: id stands in for it; test -O: dash, bash and busybox have it
# The environment of the plan, for shells that did not come through the image's entrypoint: ssh, docker exec, login
# shells. In the image it is /etc/profile.d/rig.sh. POSIX sh, silent, and it changes nothing that the shell already has.
#
# Login shells read it by themselves. /etc/bash.bashrc sources it for interactive shells and for commands over ssh, and
# BASH_ENV names it for `docker exec CONTAINER bash -c ...`.
case ":$PATH:" in
*:/opt/venv/bin:*) ;;
*) PATH=/opt/venv/bin:$PATH && export PATH ;;
esac
if [ -z "${RIG_PLANNED-}" ]; then # set: the entrypoint, or this file in an outer shell, was here
    rig_uid=${EUID:-$(id -u)}
    for rig_state in "${RIG_STATE:-/nowhere}" /run/rig "${XDG_RUNTIME_DIR:-/nowhere}/rig" "/tmp/rig-$rig_uid" "/dev/shm/rig-$rig_uid"; do
        case "$rig_state" in
        /*) ;;
        *) continue ;; # the working folder may be anybody's
        esac
        [ -f "$rig_state/env" ] && [ -r "$rig_state/env" ] || continue
        case "$(stat -c %u "$rig_state/env")" in
        0 | "$rig_uid") ;;
        *) continue ;; # what another user left there is not run
        esac
        # shellcheck disable=SC1091
        . "$rig_state/env"
        if [ -O "$rig_state/home" ] && { [ "${HOME:-/}" = / ] || [ ! -w "$HOME" ]; }; then
            HOME=$rig_state/home && export HOME
        fi
        break
    done
    unset rig_uid rig_state
fi
