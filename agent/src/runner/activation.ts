// `current` moves to this deployment: at the end of its steps, or earlier when a step asks with `berth-activate` (a
// repository that restarts its application itself must move it first). Invariant: what `current` was before is
// remembered with the first move, so that a failure afterwards puts it back.
import { lstatSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PROCESSES } from '@berth/shared'
import { replaceFile } from '../machine/atomic-files.ts'
import { moveLink, readLink, removeLink } from '../machine/files.ts'
import { dropRights } from '../machine/process/confinement.ts'
import { runProgram } from '../machine/process/programs.ts'
import { type Attempt, accountOf } from './attempt.ts'

/** In the PATH of every command. It can only ask: the link lies in a folder that the environment cannot write. */
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
    // first deployment of this environment
  }
  replaceFile(file, PROGRAM, 0o755)
}

export function moveCurrent(attempt: Attempt): void {
  const { current } = attempt.paths
  attempt.results.previousRelease ??= readLink(current) ?? ''
  moveLink(current, join('releases', String(attempt.assignment.taskId)))
  attempt.output.say(`current is now release ${attempt.assignment.taskId}.`)
}

/** Nothing happens when it was not moved, or was put back already. */
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

/** Answers `berth-activate` while a command runs; returns how to stop listening. */
export function listenForActivation(attempt: Attempt): () => void {
  const request = join(attempt.paths.shared, `.berth-activate-${attempt.assignment.attemptId}`)
  let isBusy = false
  const look = async (): Promise<void> => {
    if (isBusy) return
    try {
      lstatSync(request)
    } catch {
      return // nobody asked
    }
    isBusy = true
    try {
      moveCurrent(attempt)
      // inside the environment's own folder, so with its rights
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
