// Reports over the open page that the session ended; typed text below stays.
import { queryClient } from '../api.ts'
import { Dialog } from '../components/dialog.tsx'
import { SignInForm } from '../components/forms/sign-in-form.tsx'
import { beginSession } from '../session.ts'

export default function SessionEnded({ email }: { email: string }) {
  return (
    <Dialog title="Your session has ended" isFirm onClose={() => {}}>
      <p>Sign in to continue. Nothing you typed is lost.</p>
      <SignInForm
        email={email}
        onDone={() => {
          beginSession()
          void queryClient.invalidateQueries()
        }}
      />
    </Dialog>
  )
}
