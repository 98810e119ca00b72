// Questions, and what came of a change.

let answerLast = () => {};

/** Shows a question; true: yes. The safe answer has the focus. */
function confirmed(title, told, yes, wantsToken) {
  put($('ask-title'), title);
  put($('ask-words'), told);
  put($('ask-yes'), yes);
  $('ask-token-row').hidden = !wantsToken;
  answerLast(false);
  $('ask').showModal();
  (wantsToken ? $('ask-token') : $('ask-no')).focus();
  return new Promise(done => {
    let answer = false;
    answerLast = done;
    $('ask-form').onsubmit = event => {
      event.preventDefault();
      answer = !wantsToken || $('ask-token').value.trim() !== '';
      if (answer) $('ask').close();
    };
    $('ask-no').onclick = () => $('ask').close();
    $('ask').onclose = () => {
      // The event comes later than the call: it may be that of the question before.
      if ($('ask').open) return;
      if (!answer) $('ask-token').value = '';
      done(answer);
    };
  });
}

/** Makes a change with a button held down, and tells what came of it; true: it was made. */
async function act(pressed, done, make) {
  pressed.disabled = true;
  try {
    const status = await make();
    toast(status === 202 ? `${done} A process lags behind.` : done);
    return true;
  } catch (error) {
    toast(error.message);
    return false;
  } finally {
    pressed.disabled = false;
    if (pressed.isConnected && document.activeElement === document.body) pressed.focus();
  }
}

let toastEnds;
function toast(told) {
  put($('toast'), told);
  clearTimeout(toastEnds);
  toastEnds = setTimeout(() => put($('toast'), ''), 8000);
}

$('forget').onclick = () => {
  token = '';
  $('forget').hidden = true;
  toast('The token is forgotten.');
};
