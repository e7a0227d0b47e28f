trap '' TERM INT HUP QUIT
while :; do sleep 1; done
