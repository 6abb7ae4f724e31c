// A file system of limited size: an ext4 in a sparse file, mounted by the loop driver. Needs root.
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface SmallDisk {
  folder: string
  freeBytes(): number
  /** Fills the disk until only this much is free; 0 frees it again. */
  fill(leaveBytes: number): void
  close(): void
}

const run = (program: string, ...args: string[]): void => {
  execFileSync(program, args, { stdio: ['ignore', 'ignore', 'pipe'] })
}

/** Waits for the engine's last processes to release it; after five seconds it unmounts lazily. */
function unmount(folder: string): void {
  for (let n = 0; n < 50; n++) {
    try {
      run('umount', folder)
      return
    } catch {
      execFileSync('sleep', ['0.1'])
    }
  }
  run('umount', '--lazy', folder)
}

export function makeSmallDisk(bytes: number): SmallDisk {
  const outer = mkdtempSync(join(tmpdir(), 'berth-disk-'))
  const image = join(outer, 'image')
  const folder = join(outer, 'mounted')
  const ballast = join(folder, 'ballast')
  mkdirSync(folder)
  chmodSync(outer, 0o711) // accounts of environments work below it
  try {
    run('truncate', '--size', String(bytes), image)
    run('mkfs.ext4', '-q', '-F', '-m', '0', image)
    run('mount', '-o', 'loop', image, folder)
    chmodSync(folder, 0o711)
  } catch (error) {
    rmSync(outer, { recursive: true, force: true })
    throw error
  }
  const freeBytes = (): number => {
    const { bavail, bsize } = statfsSync(folder)
    return bavail * bsize
  }
  return {
    folder,
    freeBytes,
    fill(leaveBytes) {
      rmSync(ballast, { force: true })
      const size = leaveBytes > 0 ? freeBytes() - leaveBytes : 0
      if (size > 0) run('fallocate', '--length', String(size), ballast)
    },
    close() {
      unmount(folder)
      rmSync(outer, { recursive: true, force: true })
    },
  }
}
