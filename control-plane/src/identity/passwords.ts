// The slow hash of passwords (scrypt, 32 MiB per try, off the event loop), for accounts created outside the sign-in
// library: set-up and invitations. The library verifies with the same hash.
import { hashPassword as hash, verifyPassword } from 'better-auth/crypto'

export const hashPassword = (password: string): Promise<string> => hash(password)

export const isPassword = (passwordHash: string, password: string): Promise<boolean> =>
  verifyPassword({ hash: passwordHash, password })
