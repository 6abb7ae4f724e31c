// Loads the packet rules into the kernel atomically (iptables, ip6tables), and records whether they are in force.
// The server's page shows that; where they are not, the edge checks listeners itself. The caller holds the turn
// (resources/firewall.ts), so that older facts never replace newer ones.
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { FIREWALL } from '../../limits/machine.ts'
import type { AgentSettings } from '../../settings.ts'
import { replaceFile } from '../atomic-files.ts'
import { readBootId } from '../process/processes.ts'
import { locateProgram, runProgram, SYSTEM_PATH } from '../process/programs.ts'
import { type Family, type FirewallFacts, renderRemoval, renderRules, type Saved } from './rules.ts'

export interface FirewallState {
  isInForce: boolean
  /** Of the facts that the rules were made from. */
  digest: string
  /** Whether the engine itself, on behalf of a build, can reach what the rules isolate. */
  engine: 'none' | 'bound' | 'unbound'
  /** Why the rules are not in force, as a sentence that a person can act on. */
  reason: string
  bootId: string
}

type Folders = Pick<AgentSettings, 'runDir'>

const stateFile = ({ runDir }: Folders): string => join(runDir, 'firewall.json')

/** Undefined when no process has tried since boot. */
export function readFirewallState(settings: Folders): FirewallState | undefined {
  try {
    const found = JSON.parse(readFileSync(stateFile(settings), 'utf8')) as FirewallState
    return found.bootId === readBootId() ? found : undefined
  } catch {
    return undefined
  }
}

export const forgetState = (settings: Folders): void => rmSync(stateFile(settings), { force: true })

/** The rules cannot be set; the message says why. */
class FirewallError extends Error {
  override readonly name = 'FirewallError'
}

const PROGRAMS: Record<Family, string> = { 4: 'iptables', 6: 'ip6tables' }

const programOf = (family: Family, what: 'save' | 'restore'): string => {
  const name = `${PROGRAMS[family]}-${what}`
  const found = locateProgram(name)
  if (!found) throw new FirewallError(`${name} is not installed`)
  return found
}

const firstLine = (text: string): string =>
  text.trim().split('\n')[0]?.slice(0, FIREWALL.reasonLength) ?? ''

async function save(family: Family): Promise<Saved> {
  const options = { maxBytes: FIREWALL.savedBytes }
  const { code, stdout, stderr } = await runProgram([programOf(family, 'save')], options)
  if (code !== 0) throw new FirewallError(firstLine(stderr))
  const text = stdout.toString('utf8')
  const tableOf = (name: string): string =>
    new RegExp(`^\\*${name}\\n([\\s\\S]*?)^COMMIT$`, 'm').exec(text)?.[1] ?? ''
  return { filter: tableOf('filter'), mangle: tableOf('mangle') }
}

/** Why rules cannot be set here; undefined when they can. Changes nothing. */
export async function findFirewallFault(): Promise<string | undefined> {
  try {
    for (const family of families()) {
      programOf(family, 'restore')
      await save(family)
    }
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}

/** The kernel accepts all rules or none. */
function restore(family: Family, rules: string): Promise<void> {
  const program = programOf(family, 'restore')
  return new Promise((resolve, reject) => {
    const child = spawn(program, ['--noflush', '-w', String(FIREWALL.waitSeconds)], {
      cwd: '/',
      env: { PATH: SYSTEM_PATH, LC_ALL: 'C' },
      stdio: ['pipe', 'ignore', 'pipe'],
      timeout: FIREWALL.programMs,
      killSignal: 'SIGKILL',
    })
    let said = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(0, FIREWALL.savedBytes)
    })
    child.stdin.on('error', () => undefined) // it exited before it had read everything; its exit code says why
    child.once('error', reject)
    child.once('close', (code) => {
      if (code === 0) resolve()
      else reject(new FirewallError(firstLine(said) || `${program} ended with ${code}`))
    })
    child.stdin.end(rules)
  })
}

/** A kernel without IPv6 needs no IPv6 rules. */
const families = (): Family[] => (existsSync('/proc/net/if_inet6') ? [4, 6] : [4])

async function applyTo(family: Family, facts: FirewallFacts): Promise<boolean> {
  const saved = await save(family)
  try {
    await restore(family, renderRules(facts, family, saved))
    return facts.engineGroup !== undefined
  } catch (error) {
    if (facts.engineGroup === undefined) throw error
    // this kernel cannot match control groups here; apply the other rules
    return applyTo(family, { ...facts, engineGroup: undefined })
  }
}

/** Returns whether the engine itself is restricted too. Throws a FirewallError. */
export async function applyRules(facts: FirewallFacts): Promise<boolean> {
  const done = await Promise.all(families().map((family) => applyTo(family, facts)))
  return done.every((isEngineBound) => isEngineBound)
}

/** Removes every rule of this installation from the kernel. */
export async function removeRules(stateDir: string): Promise<void> {
  for (const family of families()) {
    const removal = renderRemoval(stateDir, await save(family))
    if (removal) await restore(family, removal)
  }
}

const CONSEQUENCE =
  'While a service of the manual recipe is down its route is taken away; other accounts of this server can reach its port, and environments the metadata addresses of a cloud.'

/** Writes only when the state changes, because the edge reads it often. */
function note(settings: Folders, state: Omit<FirewallState, 'bootId'>): FirewallState {
  const noted = { ...state, bootId: readBootId() }
  if (!isDeepStrictEqual(readFirewallState(settings), noted)) {
    mkdirSync(settings.runDir, { recursive: true, mode: 0o711 })
    replaceFile(stateFile(settings), JSON.stringify(noted))
  }
  return noted
}

export const noteForce = (
  settings: Folders,
  done: Pick<FirewallState, 'digest' | 'engine'>,
): FirewallState => note(settings, { isInForce: true, reason: '', ...done })

/** `problem` is a sentence. */
export const noteProblem = (settings: Folders, problem: string): FirewallState =>
  note(settings, {
    isInForce: false,
    digest: '',
    engine: 'none',
    reason: `${problem} ${CONSEQUENCE}`,
  })
