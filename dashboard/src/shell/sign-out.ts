// Ends the session in this browser and forgets everything that was loaded with it.
import { queryClient, send } from '../api.ts'
import { forgetSession } from '../session.ts'

export async function signOut(): Promise<void> {
  await send('/api/auth/sign-out', {}).catch(() => {})
  forgetSession()
  queryClient.clear()
  location.assign('/login')
}
