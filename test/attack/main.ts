// npm run attack [-- --only SUBJECT] [--important]
//
// Runs hostile repositories, accounts and clients against a real installation in its own network and process
// namespaces. Each line is an attack whose control had worked: `held`, or `BROKEN` with what the attacker got. Exit
// code 1 on any BROKEN. Needs root.
import { execFileSync, spawnSync } from 'node:child_process'
import { parseArgs } from 'node:util'
import { ensureCaddy } from '../../scripts/caddy.ts'
import { judge } from './case.ts'
import { CASES } from './cases/all.ts'
import { AttackedInstallation } from './target.ts'

const INSIDE = 'BERTH_ATTACK_INSIDE'

const { values } = parseArgs({
  options: { only: { type: 'string' }, important: { type: 'boolean', default: false } },
})

/** Keeps the attacks inside this machine, and their ports and rules apart from other programs. */
function enterNamespace(): number {
  ensureCaddy() // inside there is no network
  const argv = ['--net', '--', process.execPath, ...process.argv.slice(1)]
  const { status, signal, error } = spawnSync('unshare', argv, {
    stdio: 'inherit',
    env: { ...process.env, [INSIDE]: '1' },
  })
  if (error) throw error
  return signal ? 1 : (status ?? 1)
}

async function attack(): Promise<number> {
  execFileSync('ip', ['link', 'set', 'lo', 'up'])
  const chosen = CASES.filter(
    (one) =>
      (values.only === undefined || one.subject === values.only) &&
      (!values.important || one.isImportant === true),
  )
  if (chosen.length === 0) {
    console.error(
      `No case of ${values.only}. Subjects: ${[...new Set(CASES.map((one) => one.subject))].join(', ')}`,
    )
    return 2
  }
  const installation = await AttackedInstallation.open((line) => console.log(line))
  let broken = 0
  try {
    for (const one of chosen) {
      const verdict = await judge(installation, one)
      if (verdict.broken !== undefined) broken += 1
      const word = verdict.broken === undefined ? 'held  ' : 'BROKEN'
      const reason = verdict.broken === undefined ? '' : `: ${verdict.broken}`
      console.log(`${word}  ${one.subject.padEnd(10)} ${one.title}${reason}`)
    }
  } finally {
    await installation.close()
  }
  console.log(`${chosen.length} attacks: ${chosen.length - broken} held, ${broken} BROKEN`)
  return broken === 0 ? 0 : 1
}

if (process.getuid?.() !== 0) {
  console.error('npm run attack needs root: it makes accounts, namespaces and a Docker engine.')
  process.exit(2)
}
process.exit(process.env[INSIDE] ? await attack() : enterNamespace())
