// What one account of the server can see, touch or reach of another environment and of the agent itself.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Case, found, must } from '../case.ts'
import { type AttackedInstallation, CANARY } from '../target.ts'

const environmentDir = (w: AttackedInstallation, who: 'victim' | 'mallory'): string =>
  join(w.fixture.stateDir, 'environments', `e${w[who].environment.id}`)

/** Unreadable, while an own file of the same kind is readable. */
const unreadable = (
  what: string,
  path: (w: AttackedInstallation) => string,
  isImportant = false,
): Case => ({
  subject: 'neighbours',
  title: `an account cannot read ${what}`,
  isImportant,
  async control(w) {
    must(existsSync(path(w)), `${path(w)} is not there`)
    const { out } = await w.implant(
      w.mallory,
      'cat "$BERTH_VARIABLES_FILE" >/dev/null && echo readable',
    )
    must(out.includes('readable'), out)
  },
  async attack(w) {
    const { out } = await w.implant(
      w.mallory,
      `cat ${path(w)} >/dev/null 2>&1 && echo readable; ls ${path(w)}/ >/dev/null 2>&1 && echo listable`,
    )
    return found(out, /readable|listable/)
  },
})

const newest = (folder: string, pattern: RegExp): string =>
  join(
    folder,
    readdirSync(folder)
      .filter((name) => pattern.test(name))
      .sort()
      .at(-1) ?? 'none',
  )

/** Both write a file into a path that the whole machine shares, and look for the other's. */
const shared = (place: string): Case => ({
  subject: 'neighbours',
  title: `two environments do not meet in ${place}`,
  isImportant: place === '/dev/shm',
  async control(w) {
    const { out } = await w.implant(
      w.mallory,
      `test ! -d ${place} || { echo own >${place}/of-mallory; cat ${place}/of-mallory; rm ${place}/of-mallory; }; echo done`,
    )
    must(out.includes('done'), out)
  },
  async attack(w) {
    const victim = await w.send(
      'POST',
      w.victim.host(),
      '/',
      w.friend(),
      `test -d ${place} && (umask 0; echo secret >${place}/of-victim); ls ${place} 2>/dev/null; true`,
    )
    const { out } = await w.implant(w.mallory, `cat ${place}/of-victim 2>/dev/null; true`)
    await w.send('POST', w.victim.host(), '/', w.friend(), `rm -f ${place}/of-victim`)
    return (
      found(out, 'secret') ??
      (victim.status === 200 ? undefined : `the victim answered ${victim.status}`)
    )
  },
})

export const NEIGHBOURS: Case[] = [
  unreadable(
    'a neighbour’s variables',
    (w) => newest(join(environmentDir(w, 'victim'), 'variables'), /\.sh$/),
    true,
  ),
  unreadable('a neighbour’s release', (w) =>
    join(environmentDir(w, 'victim'), 'current', 'implant.cjs'),
  ),
  unreadable('a neighbour’s shared folder', (w) => join(environmentDir(w, 'victim'), 'shared')),
  unreadable('a neighbour’s logs', (w) =>
    join(w.fixture.stateDir, 'logs', `e${w.victim.environment.id}`),
  ),
  unreadable('the agent’s identity', (w) => join(w.fixture.stateDir, 'identity')),
  unreadable('the agent’s journal', (w) => join(w.fixture.stateDir, 'journal.db')),
  unreadable('the agent’s ledger', (w) => join(w.fixture.stateDir, 'ledger.db')),
  unreadable('the secret of the proxy’s probe', (w) =>
    join(w.fixture.stateDir, 'edge', 'keys.json'),
  ),
  unreadable('the control plane’s database', (w) =>
    join(w.fixture.dir, 'control-plane', 'berth.db'),
  ),
  unreadable('the key that seals secrets', (w) => join(w.fixture.dir, 'control-plane', 'kek')),
  unreadable('the engine’s socket', (w) => w.engine.socket),
  ...['/tmp', '/var/tmp', '/dev/shm', '/run/lock', '/dev/mqueue'].map(shared),
  {
    subject: 'neighbours',
    title: 'no process of another account shows its variables',
    isImportant: true,
    control: async (w) => {
      const { out } = await w
        .send(
          'POST',
          w.victim.host(),
          '/',
          w.friend(),
          'cat /proc/self/environ | tr "\\0" "\\n" | grep -c SECRET',
        )
        .then((v) => JSON.parse(v.text) as { out: string })
      must(Number(out) >= 1, `the victim does not have it either: ${out}`)
    },
    async attack(w) {
      const { out } = await w.implant(
        w.mallory,
        `cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -a canary-; true`,
      )
      return found(out, CANARY)
    },
  },
  {
    subject: 'neighbours',
    title: 'no process of another account can be signalled',
    control: async (w) =>
      must(
        (await w.implant(w.mallory, 'sleep 5 & kill $! && echo killed')).out.includes('killed'),
        'cannot even kill its own',
      ),
    async attack(w) {
      const script =
        'me=$(id -u); cd /proc; for p in [0-9]*; do [ "$(stat -c %u $p 2>/dev/null)" = "$me" ] || { kill -0 $p 2>/dev/null && echo $p; }; done; true'
      return found((await w.implant(w.mallory, script)).out, /\d/)
    },
  },
  {
    subject: 'neighbours',
    title: 'a command inherits no descriptor but its own three',
    control: async (w) =>
      must((await w.implant(w.mallory, 'ls /proc/self/fd')).out.includes('0'), 'cannot look'),
    async attack(w) {
      // descriptors of the service's first shell, before the program opened any: node keeps what it inherited. Its
      // output goes to named pipes, which it may write to; the third one of its keeper it must not have.
      const script = `for f in /proc/$PPID/fd/*; do t=$(readlink $f); case $f in */fd/[12]) [ ! -p $f ] || continue ;; esac; case $t in socket:*|pipe:*|anon_inode:*|/dev/null|"") ;; *) echo "$f $t" ;; esac; done; true`
      const { out } = await w.implant(w.mallory, script)
      const foreign = out.split('\n').filter((line) => line && !line.includes('implant.cjs'))
      return foreign.length > 0 ? foreign.join('; ').slice(0, 200) : undefined
    },
  },
  {
    subject: 'neighbours',
    title: 'an account gains no right: no root, no capability, no mount, no device',
    isImportant: true,
    control: async (w) =>
      must(
        (await w.implant(w.mallory, 'grep NoNewPrivs /proc/self/status')).out.includes('1'),
        'no_new_privs is not set',
      ),
    async attack(w) {
      const tries = {
        root: 'setpriv --reuid=0 --clear-groups true',
        sudo: 'sudo -n true',
        mount: 'mount -t tmpfs none /mnt',
        device: 'mknod "$HOME/dev" b 8 0',
        capability: '! grep -q "CapBnd:.*0000000000000000" /proc/self/status',
        cgroup:
          'echo $$ >/sys/fs/cgroup/freezer/cgroup.procs || echo $$ >/sys/fs/cgroup/cgroup.procs',
        current: 'ln -sfn /etc "$BERTH_RELEASE_DIR/../../current"',
        program: 'echo x >"$BERTH_RELEASE_DIR/../../bin/berth-activate"',
        variables: 'echo x >>"$BERTH_VARIABLES_FILE"',
      }
      const script = Object.entries(tries)
        .map(([name, command]) => `(${command}) >/dev/null 2>&1 && echo got:${name}`)
        .join('\n')
      return found((await w.implant(w.mallory, `${script}\ntrue`)).out, /got:/)
    },
  },
  {
    subject: 'neighbours',
    title: 'the victim’s value is in no file that an account of the server can read',
    control: async (w) => {
      const file = newest(join(environmentDir(w, 'victim'), 'variables'), /\.sh$/)
      must(readFileSync(file, 'utf8').includes(CANARY), 'the value is not where it belongs')
    },
    async attack(w) {
      const script = `grep -rls ${CANARY} ${w.fixture.dir} /tmp /var/tmp /dev/shm /run /etc /var/log 2>/dev/null | head -5; true`
      return found((await w.implant(w.mallory, script)).out, /\S/)
    },
  },
]
