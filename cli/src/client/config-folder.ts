// Where the client keeps its files. Separate from credentials.ts, because finding the folder is fast and loading the
// code that reads it is not.
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { Io } from '../terminal/io.ts'

export function credentialsPath(env: Io['env'], platform: string = process.platform): string {
  const folder =
    env.BERTH_CONFIG_DIR ||
    (env.XDG_CONFIG_HOME && join(env.XDG_CONFIG_HOME, 'berth')) ||
    (platform === 'win32' && env.APPDATA && join(env.APPDATA, 'berth')) ||
    join(env.HOME || homedir(), '.config', 'berth')
  return join(folder, 'credentials.json')
}
