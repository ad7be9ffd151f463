#!/bin/sh
# Users of Redis (7 or newer, or Valkey) with the rights that each plane needs, as lines for its `aclfile`:
#   REDIS_CONTROL_PLANE_PASSWORD=… REDIS_PROXY_PASSWORD=… sh deploy/redis/users.sh > users.acl
# Passwords are stored as their SHA-256. Nobody else may connect: `default` is off.
# docs/production.md, "Users of Redis", says what is what.
set -eu

digest() {
    case "$2" in
    *[!A-Za-z0-9_-]*) echo "$1: letters, digits, - and _ only, as it becomes part of a URL" >&2; exit 1 ;;
    esac
    if [ "${#2}" -lt 16 ]; then
        echo "$1: 16 or more characters, for example of: openssl rand -hex 16" >&2
        exit 1
    fi
    printf %s "$2" | sha256sum | cut -d ' ' -f 1
}

control_plane=$(digest REDIS_CONTROL_PLANE_PASSWORD "${REDIS_CONTROL_PLANE_PASSWORD:-}")
proxy=$(digest REDIS_PROXY_PASSWORD "${REDIS_PROXY_PASSWORD:-}")

cat <<END
user default off resetpass resetkeys resetchannels -@all
user control-plane on #$control_plane resetkeys ~sy:* ~celery* ~_kombu.* ~unacked* resetchannels &sy* -@all +@read +@write +@connection +@pubsub +@transaction +@scripting -@admin -@dangerous -function -fcall -fcall_ro -script +script|load +info +time
user proxy on #$proxy resetkeys %R~sy:manifest %R~sy:fleet:* %R~sy:loads ~sy:workers ~sy:reports ~sy:proxies ~sy:acks ~sy:acks:* ~sy:kept ~sy:kept:* resetchannels &sy:bell &sy:prefixes -@all +hello +ping +select +client|setinfo +client|setname +subscribe +unsubscribe +time +get +set +del +expire +hget +hmget +hgetall +hset +hdel +zadd +zrem +zrange +zcard +zremrangebyrank +zremrangebyscore +eval +evalsha +script|load (-@all +publish resetchannels &sy:prefixes)
END
