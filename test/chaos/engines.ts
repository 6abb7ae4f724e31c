// npm run chaos -- engines [--only bookworm,trixie]: the agent's judgement of engines against real ones. Debian's Docker as
// root, Docker without root (rootlesskit), and Podman as root and without, each on a machine of its own. The run also
// prints what an engine answers, cut to what Berth reads.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { engineFacts, openEngine } from '../../agent/src/machine/docker/engine.ts'
import { type EngineKind, refuseEngine } from '../../agent/src/machine/docker/engine-kind.ts'
import { until } from '../fixtures/server/installation.ts'
import { Machine } from '../fixtures/server/machine.ts'
import { ensureRoot } from './servers.ts'

// debootstrap chooses no package for what podman calls container-network-stack
const PACKAGES =
  'ca-certificates,curl,iproute2,iptables,procps,dbus,uidmap,slirp4netns,fuse-overlayfs,rootlesskit,docker.io,podman,netavark,aardvark-dns'

interface Candidate {
  name: string
  kind: EngineKind
  socket: string
  /** A line of root's shell that does not end while the engine runs. */
  start: string
  /** What the refusal says; undefined: it is used. */
  refused?: RegExp
}

const HOME = '/run/user/1000'
/** As a person who is not root, with a runtime folder as a login makes it. */
const asPerson = (line: string): string =>
  `exec setpriv --reuid=1000 --regid=1000 --init-groups env HOME=/home/ada USER=ada XDG_RUNTIME_DIR=${HOME} PATH=/usr/sbin:/usr/bin:/sbin:/bin ${line}`

const CANDIDATES: Candidate[] = [
  {
    name: 'Docker',
    kind: 'docker',
    socket: '/run/docker.sock',
    start: 'exec dockerd --iptables=false --bridge=none --storage-driver=vfs',
  },
  {
    name: 'Docker without root',
    kind: 'rootless',
    socket: `${HOME}/docker.sock`,
    start: asPerson('/usr/share/docker.io/contrib/dockerd-rootless.sh --storage-driver=vfs'),
    refused: /^Docker \d+\.\d+\S* runs rootless/,
  },
  {
    name: 'Podman',
    kind: 'podman',
    socket: '/run/podman.sock',
    start: 'exec podman system service --time=0 unix:///run/podman.sock',
    refused: /^Podman \d+\.\d+\S* answers instead of Docker/,
  },
  {
    name: 'Podman without root',
    kind: 'podman',
    socket: `${HOME}/podman.sock`,
    start: asPerson(`podman system service --time=0 unix://${HOME}/podman.sock`),
    refused: /^Podman \d+\.\d+\S* answers instead of Docker/,
  },
]

const PREPARE = `
useradd --create-home --uid 1000 --shell /bin/sh ada
install -d -m 700 -o ada -g ada ${HOME}
# everyone may use it on a server; here, a node of its own covers that of the machine around
mknod -m 666 /run/tun c 10 200
mount --bind /run/tun /dev/net/tun
`

/** What Berth reads of the two answers. */
async function recordAnswers(machine: Machine, socket: string): Promise<string> {
  const ask = async (path: string) => {
    const words = ['curl', '-fsS', '--unix-socket', socket, `http://engine${path}`]
    return JSON.parse(await machine.must(words))
  }
  const { Version, Components } = await ask('/version')
  const { SecurityOptions } = await ask('/info')
  const names = (Components as { Name: string }[] | undefined)?.map(({ Name }) => Name)
  return JSON.stringify({ Version, Components: names, SecurityOptions })
}

async function judge(
  machine: Machine,
  { name, kind, socket, start, refused }: Candidate,
  say: (line: string) => void,
): Promise<void> {
  const [program, args] = machine.argv(['sh', '-c', start])
  const PATH = '/usr/sbin:/usr/bin:/sbin:/bin'
  const engine = spawn(program, args, { env: { PATH }, stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  for (const stream of [engine.stdout, engine.stderr]) {
    stream.on('data', (chunk) => {
      said = (said + chunk).slice(-4_000)
    })
  }
  await until(name, async () => {
    if (engine.exitCode !== null) throw new Error(`${name} ended:\n${said}`)
    const ping = await machine.run(['curl', '-fsS', '--unix-socket', socket, 'http://engine/_ping'])
    return ping.status === 0 || undefined
  }).catch((error: Error) => {
    throw new Error(`${error.message}\n${said}`)
  })
  say(`${name}: ${await recordAnswers(machine, socket)}`)
  const facts = await engineFacts(openEngine({ dockerSocket: machine.outside(socket) }))
  const refusal = refuseEngine(facts)
  const isRight = refused ? refused.test(refusal ?? '') : refusal === undefined
  if (facts.kind !== kind || !isRight) throw new Error(`${name}: ${facts.kind}, ${refusal}`)
  say(`${name}: ${refusal ?? 'used'}`)
}

/** Returns the exit code. */
export async function chaosEngines(
  names: readonly string[],
  say: (line: string) => void,
): Promise<number> {
  let failures = 0
  for (const name of names) {
    say(`${name} …`)
    const root = ensureRoot(`${name}-engines`, { suite: name, packages: PACKAGES })
    const shared = mkdtempSync(join(tmpdir(), 'berth-engines-'))
    const machine = await Machine.open({ lower: root, shared })
    try {
      await machine.must(['sh', '-euc', PREPARE])
      for (const candidate of CANDIDATES) {
        await judge(machine, candidate, (line) => say(`${name}: ${line}`)).catch((error: Error) => {
          failures += 1
          say(`${name}: FAILED: ${error.message}`)
        })
      }
    } finally {
      await machine.close()
      rmSync(shared, { recursive: true })
    }
  }
  const count = names.length * CANDIDATES.length
  say(`engines: ${count} judged, ${failures} failed: ${failures === 0 ? 'ok' : 'VIOLATED'}`)
  return failures === 0 ? 0 : 1
}
