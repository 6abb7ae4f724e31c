// Step `tools`: selects the runtimes of `manual.tools` before any command of the repository runs. A version that the
// server itself has is used as it is; others are installed by mise, as the environment's account and into its home. The
// folders it names are in PATH only after the rights are dropped (confinement.ts), because the account can write there.
import type { Step } from '@berth/shared/service-file'
import { FailureCode } from '@berth/shared/wire'
import { askVersion } from '../../machine/process/program-version.ts'
import { serverName } from '../../machine/server-settings.ts'
import { findMise } from '../../machine/tool-manager.ts'
import type { Attempt } from '../attempt.ts'
import { StepFailure } from '../failure.ts'
import { quoteShell } from '../plan/variable-files.ts'
import { newCommandContext, runCommand } from '../steps/command.ts'
import { sectionOf } from './configure.ts'

/** Programs whose name or option differs from `<tool> --version`. */
const ASK: Record<string, readonly [string, string]> = {
  python: ['python3', '--version'],
  go: ['go', 'version'],
}

const isWanted = (version: string, wanted: string): boolean =>
  version === wanted || version.startsWith(`${wanted}.`)

const failed = (code: FailureCode, message: string): StepFailure => new StepFailure(code, message)

function requireMise(attempt: Attempt, missing: string[], found: string[]): string {
  const mise = findMise(attempt.settings)
  const wanted = `Server ${serverName(attempt.settings)} has no ${missing.join(' and no ')}${found.length > 0 ? ` (it has ${found.join(', ')})` : ''}`
  if (mise === undefined) {
    throw failed(
      FailureCode.CAPABILITY_MISSING,
      `${wanted}, and no mise to install it. Install mise there as /usr/local/bin/mise (https://mise.jdx.dev/installing-mise.html), install the version itself, or change manual.tools.`,
    )
  }
  if (mise === 'unsafe') {
    throw failed(
      FailureCode.CAPABILITY_MISSING,
      `${wanted}, and its mise is not used, because other accounts than root could have changed the file or its folder. Install it as root.`,
    )
  }
  return mise
}

const step = (title: string, run: string): Step => ({
  title,
  run: `cd "$HOME"; ${run}`, // not in the checkout, whose own configuration of mise is not meant here
  dir: null,
  env: { MISE_YES: '1' },
  timeoutMs: null,
  allowFailure: false,
})

/** Folders of programs, as mise prints them. */
async function readPaths(attempt: Attempt, mise: string, names: string): Promise<string[]> {
  const chunks: Buffer[] = []
  const ask = step('Find the tools', `exec ${quoteShell(mise)} bin-paths ${names} 2>/dev/null`)
  const { exit } = await runCommand(attempt, ask, newCommandContext(attempt), (_, chunk) => {
    chunks.push(chunk)
  })
  const lines = Buffer.concat(chunks).toString('utf8').split(/\r?\n/)
  const paths = lines.filter((line) => /^\/[^\p{Cc}:]+$/u.test(line))
  if (exit.code === 0 && paths.length > 0) return paths
  throw failed(FailureCode.STEP_FAILED, `mise has no programs for ${names}.`)
}

export async function selectTools(attempt: Attempt): Promise<void> {
  const tools = Object.entries(sectionOf(attempt).tools ?? {})
  const wanted: string[] = []
  const missing: string[] = []
  const found: string[] = []
  for (const [tool, version] of tools) {
    const [program, option] = ASK[tool] ?? [tool, '--version']
    const own = await askVersion([program, option], /(\d+(?:\.\d+)+)/)
    if (isWanted(own, version)) {
      attempt.output.say(`${tool} ${version}: the server's own ${program} is ${own}.`)
      continue
    }
    wanted.push(quoteShell(`${tool}@${version}`))
    missing.push(`${tool} ${version}`)
    if (own !== '') found.push(`${tool} ${own}`)
  }
  if (wanted.length === 0) return
  const mise = requireMise(attempt, missing, found)
  const program = quoteShell(mise)
  for (const [index, tool] of wanted.entries()) {
    const run = `${program} where ${tool} >/dev/null 2>&1 || exec ${program} install ${tool}`
    const title = `Install ${missing[index]}`
    const { exit } = await runCommand(attempt, step(title, run), newCommandContext(attempt))
    if (exit.code !== 0) {
      const message = `mise could not install ${missing[index]}. Its output says why.`
      throw failed(FailureCode.STEP_FAILED, message)
    }
  }
  attempt.results.toolPaths = await readPaths(attempt, mise, wanted.join(' '))
  attempt.output.say(`${missing.join(', ')}: of mise, in ${attempt.results.toolPaths.join(', ')}.`)
}
