// A folder of its own small file system (tmpfs), which a test can really fill up. Needs root.
import { execFileSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface FullFolder {
  folder: string
  /** Takes every block that is left. */
  fill(): void
  /** Gives them back. */
  free(): void
  close(): void
}

const PIECE = Buffer.alloc(64 * 1_024)

export function makeFullFolder(bytes: number): FullFolder {
  const folder = mkdtempSync(join(tmpdir(), 'berth-full-'))
  const options = `size=${bytes},mode=0711`
  execFileSync('mount', ['-t', 'tmpfs', '-o', options, 'berth-full', folder], { stdio: 'pipe' })
  const ballast = join(folder, 'ballast')
  return {
    folder,
    fill() {
      const file = openSync(ballast, 'a')
      try {
        for (let size = PIECE.length; size >= 1; ) {
          try {
            writeSync(file, PIECE, 0, size)
          } catch (error) {
            if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
            size = Math.floor(size / 2)
          }
        }
      } finally {
        closeSync(file)
      }
    },
    free: () => rmSync(ballast, { force: true }),
    close() {
      execFileSync('umount', ['--lazy', folder], { stdio: 'pipe' })
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
