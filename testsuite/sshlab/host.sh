# The first process of a host: makes its own of what a host has, becomes its sshd.
# LAB is the host's directory, EVIDENCE the one that all share, NAME its name.
set -e
mount --make-rprivate /
mount -t proc proc /proc
hostname "$NAME"
mount -t tmpfs tmpfs /run
mkdir -p /run/sshd /run/lab /run/evidence /run/programs /run/lock
chmod 1777 /run/lock
mount --bind "$LAB/etc" /run/lab
mount --bind "$EVIDENCE" /run/evidence
for file in passwd shadow group machine-id; do
  mount --bind "$LAB/etc/$file" "/etc/$file"
done
mount --bind "$LAB/etc/boot_id" /proc/sys/kernel/random/boot_id
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /var/log
if [ -n "$DISK" ]; then
  mount -t tmpfs -o "size=$DISK,mode=755" tmpfs /home
  mkdir /home/lab
  chown "$OWNER:$OWNER" /home/lab
else
  mount --bind "$LAB/home" /home
fi
[ -z "$READONLY" ] || mount -o remount,bind,ro /home
if [ -n "$PROGRAMS" ]; then
  mount -t tmpfs tmpfs /run/programs
  mkdir /run/programs/upper /run/programs/work
  mount -t overlay overlay -o lowerdir=/usr/bin,upperdir=/run/programs/upper,workdir=/run/programs/work /usr/bin
  for program in $WITHOUT; do rm -f "/usr/bin/$program"; done
  [ ! -d /run/lab/programs ] || cp -p /run/lab/programs/* /usr/bin/
fi
mount --bind "$LAB/vartmp" /var/tmp
mount --bind "$LAB/tmp" /tmp
mkdir -p "$EVIDENCE"
mount --bind /run/evidence "$EVIDENCE"
cd /
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "$SSHD" -D -f /run/lab/sshd_config -E /run/lab/log
