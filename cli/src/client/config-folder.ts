// Where the client keeps what it remembers. Apart from credentials.ts, because to know the place is quick and to read
// what lies there is not.
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
