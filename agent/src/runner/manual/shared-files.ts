// Step `share`: replaces the paths of `manual.shared` in the new release by links into the environment's persistent
// folder. The environment's account can write to both folders at any time, so its own account performs everything, in
// its own view of the machine; root neither reads nor follows what is there.

import { FailureCode } from '@berth/shared/wire'
import { PROCESSES } from '../../limits/machine.ts'
import { dropRights, joinGroups, ownPaths } from '../../machine/process/confinement.ts'
import { runProgram } from '../../machine/process/programs.ts'
import { sharedPaths } from '../../machine/users/shared-paths.ts'
import { type Attempt, accountOf } from '../attempt.ts'
import { StepFailure } from '../failure.ts'
import { releaseOf } from '../last-version.ts'
import { isManualPlan, releaseIdOf } from '../plan/plan.ts'
import { commandCgroup } from '../steps/command.ts'
import { guardDiskSpace } from '../steps/disk-space.ts'
import { sectionOf } from './configure.ts'

/**
 * Prints one line per path: how it began, and the path. What the shared folder has is never replaced; a copy gets its
 * name only when it is complete.
 */
const SHARE = [
  'set -eu; umask 0027; release=$(cd -P -- "$1" && pwd); shared=$(cd -P -- "$2" && pwd); former=$3; shift 3',
  'fail() { echo "$1" >&2; exit 1; }',
  'while [ $# -gt 0 ]; do path=$1; kind=$2; shift 2',
  'here=$release/$path; there=$shared/$path; from=kept',
  '[ ! -L "$here" ] || [ "$(readlink -- "$here")" != "$there" ] || { echo "linked $path"; continue; }',
  '[ ! -L "$here" ] || fail "$path is a link in the repository. Remove it there, or from manual.shared."',
  'for base in "$release" "$shared"; do up=$(dirname -- "$base/$path"); mkdir -p -- "$up"; [ "$(cd -P -- "$up" && pwd)" = "$up" ] || fail "$path is below a link."; done',
  'if [ ! -e "$there" ] && [ ! -L "$there" ]; then',
  'if [ -n "$former" ] && [ -e "$former/$path" ] && [ ! -L "$former/$path" ]; then from=former; rm -rf -- "$shared/.berth-copy"; cp -a -- "$former/$path" "$shared/.berth-copy"; mv -T -- "$shared/.berth-copy" "$there"',
  'elif [ -e "$here" ]; then from=repository; mv -T -- "$here" "$there"',
  'elif [ "$kind" = folder ]; then from=empty; mkdir -- "$there"',
  'else from=absent; fi; fi',
  'rm -rf -- "$here"; ln -s -- "$there" "$here"; echo "$from $path"',
  'done',
].join('\n')

const BEGINNINGS: Record<string, (attempt: Attempt) => string> = {
  former: ({ results: { last } }) =>
    `begins with a copy of what release ${isManualPlan(last) ? releaseIdOf(last) : ''} has; what the running version writes there from now on is not in it`,
  repository: () => 'begins with what the repository has',
  empty: () => 'is an empty folder',
  absent: () => 'is for the application to create',
}

export async function linkShared(attempt: Attempt): Promise<void> {
  const { paths, results, output, settings, releaseDir } = attempt
  const shared = sectionOf(attempt).shared ?? []
  const account = accountOf(attempt)
  const own = { temporary: paths.temporary, instead: sharedPaths(settings) }
  const former = isManualPlan(results.last) ? releaseOf(paths, results.last) : ''
  const argv = [
    ...joinGroups(commandCgroup(attempt)?.joinFiles() ?? []),
    ...(account ? ownPaths(own) : []),
    ...dropRights(account),
    ...['/bin/sh', '-c', SHARE, 'berth-share', releaseDir, paths.shared],
    former === releaseDir ? '' : former,
    ...shared.flatMap(({ path, isFolder }) => [path, isFolder ? 'folder' : 'file']),
  ]
  const lines = await guardDiskSpace(attempt, async (signal) => {
    const done = await runProgram(argv, { signal, timeoutMs: PROCESSES.removeMs })
    attempt.interruption.throwIfFired()
    if (done.code === 0) return done.stdout.toString('utf8').split('\n').filter(Boolean)
    const said = attempt.report.text(done.stderr.trim().split('\n').at(-1) ?? '').slice(0, 500)
    const why = said || 'it took too long.'
    const message = `The paths of manual.shared could not be linked: ${why}`
    throw new StepFailure(FailureCode.STEP_FAILED, message)
  })
  for (const line of lines) {
    const [from = '', ...path] = line.split(' ')
    const how = BEGINNINGS[from]?.(attempt)
    output.say(`${path.join(' ')} is shared by all deployments${how ? `: it ${how}` : ''}.`)
  }
}
