// Moves `current` to this deployment, at the end of its steps or earlier when a step calls `berth-activate` (needed by
// a repository that restarts its application itself). Invariant: the first move records the previous target of
// `current`, so that a later failure can restore it.
import { lstatSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { PROCESSES } from '../limits/machine.ts'
import { replaceFile } from '../machine/atomic-files.ts'
import { moveLink, readLink, removeLink } from '../machine/files.ts'
import { dropRights } from '../machine/process/confinement.ts'
import { runProgram } from '../machine/process/programs.ts'
import { type Attempt, accountOf } from './attempt.ts'

/**
 * In the PATH of every command. It can only ask, because the environment cannot write the folder that holds the link.
 */
const PROGRAM = `#!/bin/sh
# Makes this deployment the current one before its steps have ended. Written by Berth, do not edit.
set -eu
request=$BERTH_SHARED_DIR/.berth-activate-$BERTH_ATTEMPT_ID
: >"$request"
tries=0
while [ -e "$request" ]; do
  tries=$((tries + 1))
  [ "$tries" -le 300 ] || { echo "berth-activate: no answer from the agent" >&2; exit 1; }
  sleep 0.1
done
`

export function ensureActivateProgram(attempt: Attempt): void {
  const file = join(attempt.paths.bin, 'berth-activate')
  try {
    if (readFileSync(file, 'utf8') === PROGRAM) return
  } catch {
    // the first deployment of this environment
  }
  replaceFile(file, PROGRAM, 0o755)
}

export function moveCurrent(attempt: Attempt): void {
  const { current } = attempt.paths
  attempt.results.previousRelease ??= readLink(current) ?? ''
  const release = basename(attempt.releaseDir)
  moveLink(current, join('releases', release))
  attempt.output.say(`current is now release ${release}.`)
}

/** Does nothing if `current` was never moved or is already restored. */
export function restoreCurrent(attempt: Attempt): void {
  const { results, paths, output } = attempt
  const before = results.previousRelease
  if (before === undefined) return
  if (before === '') removeLink(paths.current)
  else moveLink(paths.current, before)
  delete results.previousRelease
  const again = before === '' ? 'was removed' : `is ${before}`
  output.say(`current ${again} again; commands that ran are not undone.`)
}

/** Serves `berth-activate` while a command runs; returns a function that stops listening. */
export function listenForActivation(attempt: Attempt): () => void {
  const request = join(attempt.paths.shared, `.berth-activate-${attempt.assignment.attemptId}`)
  let isBusy = false
  const look = async (): Promise<void> => {
    if (isBusy) return
    try {
      lstatSync(request)
    } catch {
      return // no request
    }
    isBusy = true
    try {
      moveCurrent(attempt)
      // in a folder that the environment can write, so with its rights
      await runProgram([...dropRights(accountOf(attempt)), '/bin/rm', '-f', '--', request])
    } catch (error) {
      attempt.interruption.fail(error)
    } finally {
      isBusy = false
    }
  }
  const timer = setInterval(() => void look(), PROCESSES.activatePollMs)
  return () => clearInterval(timer)
}
