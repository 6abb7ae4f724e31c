// Adds our file to the configuration of the server's own sshd without breaking existing access. Each step can only stop
// or roll back: an invalid configuration is left alone, the main file is never edited, the settings of other users stay
// the same (compared with `sshd -T`), and a real login proves that ours works.
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { SSHD } from '../../limits/ssh.ts'
import { replaceFile, syncFolder } from '../../machine/atomic-files.ts'
import { runProgram } from '../../machine/process/programs.ts'
import { awaitGreeting, findFault, readEffect, reload, type Sshd } from './control.ts'

interface InstallTarget {
  sshd: Sshd
  /** The folder that the main file includes. */
  dropIns: string
  /** Its address, as seen from this machine. */
  listener: { address: string; port: number }
  /** Lines that must be in effect, by account. */
  expected: ReadonlyMap<string, readonly string[]>
  /** Why a login with a certificate fails; undefined when it works. */
  login: () => Promise<string | undefined>
}

type InstallOutcome =
  | { kind: 'installed' | 'unchanged' }
  /** Our file is not installed, so our own daemon is needed. */
  | { kind: 'fallback'; reason: string }

/** The Include must come before the first Match, or it would apply to some users only. PURE. */
export function includesDropIns(main: string, folder: string): boolean {
  const lines = main.split('\n').map((line) => line.trim())
  const include = lines.findIndex((line) => {
    const [word = '', ...patterns] = line.replaceAll('"', '').split(/[\s=]+/)
    return word.toLowerCase() === 'include' && patterns.includes(`${folder}/*.conf`)
  })
  const match = lines.findIndex((line) => /^match\s/i.test(line))
  return include >= 0 && (match < 0 || include < match)
}

/** Root, the account `nobody` and all users who can log in, without ours. */
export async function listOthers(own: readonly string[]): Promise<string[]> {
  const { stdout } = await runProgram(['getent', 'passwd'])
  const people = stdout
    .toString('utf8')
    .split('\n')
    .map((line) => line.split(':'))
    .filter(
      ([name, , , , , , shell]) =>
        name && shell && !/(nologin|false|sync|shutdown|halt)$/.test(shell),
    )
    .map(([name]) => name as string)
  const names = new Set(['root', 'nobody', ...people])
  return [...names].filter((name) => !own.includes(name)).slice(0, SSHD.comparedAccounts)
}

const effectsOf = async (sshd: Sshd, names: readonly string[]): Promise<string[]> => {
  const effects: string[] = []
  for (const name of names) effects.push(await readEffect(sshd, name))
  return effects
}

/** Lines that an earlier line overrides, as the first match wins. */
async function findShadowed({ sshd, expected }: InstallTarget): Promise<string | undefined> {
  for (const [account, wanted] of expected) {
    const lines = new Set((await readEffect(sshd, account)).split('\n').map((line) => line.trim()))
    const missing = wanted.find((line) => !lines.has(line))
    if (missing)
      return `The settings of ${account} are not in force (${missing.split(' ')[0]}): another Match comes first.`
  }
  return undefined
}

const read = (file: string): string | null => (existsSync(file) ? readFileSync(file, 'utf8') : null)

/** The temporary name does not end in .conf, so no Include reads it. */
function put(file: string, folder: string, text: string | null): void {
  if (text === null) rmSync(file, { force: true })
  else replaceFile(file, text, 0o644)
  syncFolder(folder)
}

export async function installDropIn(
  target: InstallTarget,
  name: string,
  text: string,
  others: readonly string[],
): Promise<InstallOutcome> {
  const { sshd, dropIns, listener } = target
  const fallback = (reason: string): InstallOutcome => ({ kind: 'fallback', reason })
  const fault = await findFault(sshd)
  if (fault)
    return fallback(`sshd's present configuration is invalid; it was not touched: ${fault}`)
  if (!includesDropIns(readFileSync(sshd.config, 'utf8'), dropIns))
    return fallback(`${sshd.config} does not include ${dropIns}/*.conf before its first Match.`)
  const file = join(dropIns, name)
  const before = read(file)
  const effects = await effectsOf(sshd, others)
  const goBack = (): void => put(file, dropIns, before)
  if (before !== text) put(file, dropIns, text)
  const problem = await findProblem(target, others, effects)
  if (problem) {
    goBack()
    return fallback(problem)
  }
  if (before === text) return { kind: 'unchanged' }
  const isUp = (await reload(sshd)) && (await awaitGreeting(listener))
  const refused = isUp ? await target.login() : 'sshd did not answer after the reload.'
  if (refused === undefined) return { kind: 'installed' }
  goBack()
  await reload(sshd)
  await awaitGreeting(listener)
  return fallback(`A login with a certificate failed: ${refused}`)
}

async function findProblem(
  target: InstallTarget,
  others: readonly string[],
  effects: readonly string[],
): Promise<string | undefined> {
  const { sshd } = target
  const fault = await findFault(sshd)
  if (fault) return `sshd refuses our configuration: ${fault}`
  const now = await effectsOf(sshd, others)
  const changed = others.filter((_, n) => now[n] !== effects[n])
  if (changed.length > 0) return `It would change what holds for ${changed.slice(0, 5).join(', ')}.`
  return findShadowed(target)
}

/** Removes our files; the rest must be valid before sshd reads it. */
export async function removeDropIns(
  sshd: Sshd,
  dropIns: string,
  names: readonly string[],
): Promise<void> {
  const present = names.filter((name) => existsSync(join(dropIns, name)))
  if (present.length === 0) return
  for (const name of present) put(join(dropIns, name), dropIns, null)
  if ((await findFault(sshd)) === undefined) await reload(sshd)
}
