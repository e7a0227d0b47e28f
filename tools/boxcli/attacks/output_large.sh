exec head -c 20971520 /dev/zero
