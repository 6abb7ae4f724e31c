// Step `written-files`: before anything is replaced, says which files the application wrote into the release that this
// deployment replaces, and how to keep such files. A file counts if its status changed after the deploy steps of its
// release ended. The environment's account searches, because it can swap any folder for a link meanwhile.
import { dirname } from 'node:path'
import { PROCESSES } from '../../limits/machine.ts'
import { dropRights } from '../../machine/process/confinement.ts'
import { runProgram } from '../../machine/process/programs.ts'
import { type Attempt, accountOf } from '../attempt.ts'
import { releaseOf } from '../last-version.ts'
import { isManualPlan, releaseIdOf } from '../plan/plan.ts'
import { sectionOf } from './configure.ts'

const SHOWN = 5

/** What tools write while a program runs, and what no user misses. */
const FOLDERS = '.cache .git .next .nuxt __pycache__ cache log logs node_modules tmp'.split(' ')
const FILES = ['*.log', '*.pid', '*.pyc', '*.sock', '*.tmp', '*.swp']

const either = (names: string[]): string[] =>
  names.flatMap((name) => ['-o', '-name', name]).slice(1)

async function findWritten(attempt: Attempt, release: string, since: number) {
  const find = ['find', release, '-xdev', '-mindepth', '1', '-type', 'd']
  const written = ['-type', 'f', '-newerct', `@${since / 1_000}`, '!', '(', ...either(FILES), ')']
  const found = await runProgram(
    [
      ...dropRights(accountOf(attempt)),
      ...[...find, '(', ...either(FOLDERS), ')', '-prune', '-o'],
      ...[...written, '-printf', '%P\\0'],
    ],
    {
      timeoutMs: PROCESSES.writtenFilesMs,
      maxBytes: PROCESSES.writtenFilesBytes,
      signal: attempt.interruption.signal,
    },
  )
  attempt.interruption.throwIfFired()
  const names = found.stdout.toString('utf8').split('\0').slice(0, -1)
  return { names, isPartial: found.timedOut || found.overflow }
}

const printable = (name: string): string => name.replaceAll(/\p{Cc}/gu, '?').slice(0, 100)

/** The file itself at the top of the checkout, else its folder, not deeper than two levels. */
const keepable = (name: string): string =>
  dirname(name) === '.' ? name : dirname(name).split('/').slice(0, 2).join('/')

export async function lookForWrittenFiles(attempt: Attempt): Promise<void> {
  const { results, paths, output, report } = attempt
  const { last } = results
  if (!isManualPlan(last)) return
  const id = releaseIdOf(last)
  const builtAt = last.releases?.find(({ taskId }) => taskId === id)?.builtAt
  const release = releaseOf(paths, last)
  if (builtAt === undefined || results.reused === id) return
  const kept = (sectionOf(attempt).shared ?? []).map(({ path }) => path)
  const { names, isPartial } = await findWritten(attempt, release, builtAt)
  const dropped = names.filter(
    (name) => !kept.some((path) => name === path || name.startsWith(`${path}/`)),
  )
  if (dropped.length === 0) {
    const bound = `${PROCESSES.writtenFilesMs / 1_000} s`
    return output.say(
      isPartial
        ? `Release ${id} was searched for ${bound}, and not to the end: no file of the application was found.`
        : `The application wrote no files into release ${id}.`,
    )
  }
  const more = dropped.length > SHOWN ? ' …' : ''
  const count = `${isPartial ? 'at least ' : ''}${dropped.length}`
  const hint = [...new Set(dropped.map(keepable))].slice(0, 3).map(printable).join(', ')
  const message =
    `The application wrote ${count} files into release ${id}, and this deployment replaces it with a fresh checkout: ` +
    `${dropped.slice(0, SHOWN).map(printable).join(', ')}${more}. To keep such files, add them to .service.yml, ` +
    `for example \`manual: { shared: [${hint}] }\`; the next deployment then begins with a copy of them. ` +
    `Until two more deployments have succeeded, they are in ${release}.`
  output.say(`Warning: ${message}`)
  report.warning('files_dropped', message, 'written-files')
}
