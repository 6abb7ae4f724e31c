// An environment's account swaps its own socket after Berth has checked it: the proxy must dial the checked socket or
// none.
import { existsSync, globSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { type Case, found, must } from '../case.ts'
import type { AttackedInstallation } from '../target.ts'

const SWAPPED_MS = 10_000
const OWN = 'socket of mallory'

const runDir = (w: AttackedInstallation): string => join(w.fixture.stateDir, 'run')
const socketDir = (w: AttackedInstallation): string =>
  join(runDir(w), `e${w.mallory.environment.id}`)

/** Makes the service's own program exit, so that its supervisor restarts it. */
async function restore(w: AttackedInstallation): Promise<void> {
  await w.implant(
    w.mallory,
    `rm -rf "$BERTH_SOCKET_DIR"/app.sock "$BERTH_SOCKET_DIR"/other.sock
     for p in /proc/[0-9]*; do grep -qa 'socket[.]cjs' $p/cmdline 2>/dev/null && kill \${p#/proc/} 2>/dev/null; done; true`,
  )
  await ownAnswers(w)
}

async function ownAnswers(w: AttackedInstallation): Promise<void> {
  for (let tries = 0; ; tries += 1) {
    const { status, text } = await w.visit(w.mallory.host('app'))
    if (status === 200 && text.includes(OWN)) return
    must(tries < 200, `the socket service answers ${status}: ${text.slice(0, 100)}`)
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

const swap = (title: string, target: (w: AttackedInstallation) => string, sign: RegExp): Case => ({
  subject: 'sockets',
  title,
  isImportant: true,
  async control(w) {
    await ownAnswers(w)
    must(existsSync(target(w)), `${target(w)} is not there`)
  },
  async attack(w) {
    const path = target(w)
    await w.implant(w.mallory, `cd "$BERTH_SOCKET_DIR" && rm -f app.sock && ln -s ${path} app.sock`)
    let got: string | undefined
    // the proxy keeps connections to the previous socket for some seconds
    for (const end = performance.now() + SWAPPED_MS; performance.now() < end && !got; ) {
      for (const url of ['/', '/version', '/config/', '/containers/json']) {
        const { text } = await w.visit(w.mallory.host('app'), url)
        got ??= found(text, sign)
      }
    }
    await restore(w)
    return got
  },
})

export const SOCKETS: Case[] = [
  swap(
    'a link to the engine’s socket leads no request there',
    (w) => w.engine.socket,
    /ApiVersion|"Image"|page not found/,
  ),
  swap(
    'a link to a neighbour’s guarded socket leads no request there',
    (w) => join(runDir(w), `e${w.victim.environment.id}`, 'app.sock'),
    /socket of victim/,
  ),
  swap(
    'a link to the proxy’s own administration leads no request there',
    (w) => globSync(join(runDir(w), 'caddy', '*.sock'))[0] ?? '',
    /"apps"|"admin"|host not allowed|not allowed/i,
  ),
  swap(
    'a link to the agent’s own socket leads no request there',
    (w) => join(runDir(w), 'edge.sock'),
    /"ok":/,
  ),
  {
    subject: 'sockets',
    title: 'swapping the name back and forth wins no race',
    isImportant: true,
    control: ownAnswers,
    async attack(w) {
      const neighbour = join(runDir(w), `e${w.victim.environment.id}`, 'app.sock')
      const loop = `cd "$BERTH_SOCKET_DIR"; mv app.sock other.sock; end=$(($(date +%s) + 12))
        while [ $(date +%s) -lt $end ]; do ln -sfn ${neighbour} app.sock; rm -f app.sock; ln other.sock app.sock 2>/dev/null; rm -f app.sock; done; mv other.sock app.sock`
      const swapping = w.implant(w.mallory, loop)
      let got: string | undefined
      let isOver = false
      const ended = swapping.finally(() => {
        isOver = true
      })
      while (!isOver && !got) {
        const { text } = await w.visit(w.mallory.host('app'))
        got = found(text, 'socket of victim')
      }
      await ended
      await restore(w)
      return got
    },
  },
  {
    subject: 'sockets',
    title: 'the proxy has an account of its own, never root’s',
    isImportant: true,
    control: async (w) => must((await w.visit(w.mallory.host())).status === 200, 'no answer'),
    async attack(w) {
      const { pid } = JSON.parse(readFileSync(join(runDir(w), 'caddy.json'), 'utf8'))
      const { uid } = statSync(`/proc/${pid}`)
      const status = readFileSync(`/proc/${pid}/status`, 'utf8')
      const [, real = '0'] = /^Uid:\s+(\d+)/m.exec(status) ?? []
      return Number(real) === 0 || uid === 0 ? `Caddy runs as uid ${real}` : undefined
    },
  },
  {
    subject: 'sockets',
    title: 'an account cannot enter a neighbour’s folder of sockets',
    control: async (w) => {
      const { out } = await w.implant(w.mallory, `ls ${socketDir(w)}`)
      must(out.includes('app.sock'), out)
    },
    async attack(w) {
      const folder = join(runDir(w), `e${w.victim.environment.id}`)
      const { out } = await w.implant(w.mallory, `ls ${folder} 2>/dev/null; echo done`)
      return found(out, 'app.sock')
    },
  },
]
