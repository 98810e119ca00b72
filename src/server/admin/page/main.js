// The beginning: the script is at the end of the page, so all of it is there.

buildNav();
openView();
look();
