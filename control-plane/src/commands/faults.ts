// Says what to do about errors that commands cannot foresee.
import { userInfo } from 'node:os'

/** Root's commands run with the account of the service, so a folder of root's is closed to them. */
export function describeFault(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { code, path } = error as NodeJS.ErrnoException
  if (code !== 'EACCES' || path === undefined || process.getuid?.() === 0) return error.message
  const { username } = userInfo()
  return `${username} may not use ${path}. Commands run with the account ${username}, also when root types them. Give it the folder, for example with: install -d -m 700 -o ${username} FOLDER`
}
