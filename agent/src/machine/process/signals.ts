// A process may end between the moment we find it and the moment we signal it. That is no error.

/** A negative number names a process group. Returns false when there is no such process any more, or it is not ours. */
export function signalProcess(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal)
  } catch {
    return false
  }
}
