// An environment that takes all resources it can get; the others must keep working.
import { type Case, must } from '../case.ts'
import type { AttackedInstallation } from '../target.ts'

const victimAnswers = async (w: AttackedInstallation): Promise<void> => {
  const { status } = await w.visit(w.victim.host(), '/', w.friend())
  must(status === 200, `the victim is answered ${status}`)
}

/** A script that takes too much; it prints GOT if nothing stopped it. */
const greedy = (
  title: string,
  where: 'mallory' | 'box',
  script: (w: AttackedInstallation) => string,
): Case => ({
  subject: 'limits',
  title,
  isImportant: title.includes('processes'),
  control: victimAnswers,
  async attack(w) {
    // the limit may stop the service itself
    const said = await w
      .implant(w[where], script(w))
      .catch((error: Error) => ({ out: error.message }))
    await victimAnswers(w)
    for (let n = 0; n < 300; n += 1) {
      if ((await w.visit(w[where].host())).status === 200) break
      await new Promise((resolve) => setTimeout(resolve, 200))
    }
    return said.out.includes('GOT') ? said.out.slice(0, 100) : undefined
  },
})

const FORKS =
  'i=0; while [ $i -lt 3000 ]; do sleep 5 & i=$((i+1)); done 2>/dev/null; n=0; for p in /proc/[0-9]*; do [ "$(stat -c %u $p 2>/dev/null)" = "$(id -u)" ] && n=$((n+1)); done; [ $n -gt 2000 ] && echo GOT $n'
const MEMORY = (node: string): string =>
  `${node} -e 'const a = []; for (let i = 0; i < 60; i += 1) a.push(Buffer.alloc(100 * 1024 * 1024, 1)); console.log("GOT " + a.length)'`

export const LIMITS: Case[] = [
  greedy('a manual environment does not fill the machine with processes', 'mallory', () => FORKS),
  greedy('a container does not fill the machine with processes', 'box', () => FORKS),
  greedy('a manual environment does not take all memory', 'mallory', (w) =>
    MEMORY(w.fixture.node()),
  ),
  greedy('a container does not take all memory', 'box', () => MEMORY('node')),
]
